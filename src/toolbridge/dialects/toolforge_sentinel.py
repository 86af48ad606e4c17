"""The frames of toolbridge's structured streams (`/v1/stream`), as a tool format.

Any model can be prompted to write them; docs/reference/stream.md describes the frames.
"""

import re
from dataclasses import dataclass

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.calls_json import stream_object
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.wire.tags import Marks, Wait

_END = "⟦END_TOOL_CALL"
_ATTRIBUTE = re.compile(r"(\w+)=([^\s⟧]+)")


@dataclass(frozen=True)
class SentinelCalls:
    """Parses a sentinel with attributes, JSON, and the end sentinel."""

    @property
    def closing(self) -> tuple[str, ...]:
        return (_END,)

    def __call__(self, writer: EventWriter, mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        cursor.take(len(mark))
        head: list[str] = []
        if (yield from cursor.until(Marks(["⟧", "\n", "⟦"]), head.append)) != "⟧":
            raise NotACall("unfinished sentinel")
        attributes = dict(_ATTRIBUTE.findall("".join(head)))
        name = writer.resolve(attributes.get("name", ""))
        yield from cursor.skip()
        is_empty = yield from cursor.stands(_END)
        if not is_empty and (yield from cursor.peek()) not in {"{", ""}:
            raise NotACall("no JSON")
        writer.call(name, attributes.get("id", ""))
        if is_empty:
            writer.end_call()
        else:
            yield from stream_object(writer, Marks([_END]))
        if (yield from cursor.follows(_END, at_end=False)):
            yield from cursor.skip()
            yield from cursor.until(Marks(["⟧"]), lambda _: None)


DIALECT = Dialect(
    name="toolforge_sentinel",
    marks=("⟦BEGIN_TOOL_CALL",),
    reader=MarkReader({"⟦BEGIN_TOOL_CALL": (SentinelCalls(),)}),
    render=Renderer(
        call="⟦BEGIN_TOOL_CALL id=$id name=$name⟧$arguments⟦END_TOOL_CALL id=$id⟧",
        result="⟦BEGIN_RESULT id=$id⟧$json⟦END_RESULT id=$id⟧",
    ),
)
