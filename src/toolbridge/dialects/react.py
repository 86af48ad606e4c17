"""ReAct: `Action:` and `Action Input:` on lines of their own.

The prompt format of LangChain agents, which older Qwen, GLM and Yi agents were trained on.
"""

from dataclasses import dataclass

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.mark_reader import CallReader, MarkReader, Span
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tag_json import NamedJson
from toolbridge.wire.tags import Marks, Wait

_ACTION = "Action:"
_LINE = Marks(["\n"])
_CALLS = NamedJson(separators=("Action Input:",), close=())


@dataclass(frozen=True)
class Scaffold:
    """Skips a `Thought:` line before an action, which the format requires and which is no reasoning."""

    calls: CallReader = _CALLS

    @property
    def closing(self) -> tuple[str, ...]:
        return ()

    def __call__(self, writer: EventWriter, _mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        yield from cursor.until(_LINE, lambda _: None)
        yield from cursor.skip()
        if not (yield from cursor.stands(_ACTION)):
            raise NotACall("no action after the thought")
        yield from self.calls(writer, _ACTION)


DIALECT = Dialect(
    name="react",
    marks=("\nAction:", "Thought:"),
    reader=MarkReader(
        {_ACTION: (_CALLS,), "Thought:": (Scaffold(),)},
        thoughts=(Span("Thought:", "\n"),),
        bare=("Thought:",),
        drop=("Observation:",),
    ),
    render=Renderer(call="Action: $name\nAction Input: $arguments", result="Observation: $result"),
)
