"""Functionary 3.1: JSON in `<function=NAME>`; Functionary 2: messages with a recipient.

The template of meetkai/functionary-medium-v3.1, and the custom tools of Llama 3.1. The templates of
functionary-small-v2.2 to v2.5 write `<|from|>assistant`, `<|recipient|>NAME` and `<|content|>JSON` on
lines of their own; the recipient `all` is text. Their prompt ends with the header of the answer.
"""

import re
from dataclasses import dataclass

from typing_extensions import override

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, NAMED_FUNCTION
from toolbridge.dialects.engines.tag_json import NamedJson
from toolbridge.wire.tags import Wait

_FROM = "<|from|>assistant"
_RECIPIENT = "<|recipient|>"
_CONTENT = "<|content|>"
_NAME = re.compile(r"[\w.:-]*")


@dataclass(frozen=True)
class RecipientCalls(NamedJson):
    """Parses a header with a recipient, and its JSON if the recipient is a tool."""

    separators: tuple[str, ...] = (_CONTENT,)
    close: tuple[str, ...] = ("<|stop|>",)

    @override
    def __call__(self, writer: EventWriter, mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        cursor.take(len(mark))
        if mark == _FROM:
            yield from cursor.skip()
            if not (yield from cursor.accept(_RECIPIENT)):
                raise NotACall("no recipient")
        yield from cursor.skip(" \t")
        if (yield from cursor.match(_NAME)) == "all":
            cursor.take(len("all"))
            yield from cursor.skip()
            if not (yield from cursor.accept(_CONTENT)):
                raise NotACall("no message")
            return  # the message is text
        yield from self._one(writer)


@dataclass(frozen=True)
class Functionary(MarkReader):
    """Reads an answer whose first header may be in the prompt."""

    @override
    def begun(self, prompt: str) -> str:
        return _FROM + "\n" + _RECIPIENT if prompt.rstrip().endswith(_RECIPIENT) else ""


_CALLS = (RecipientCalls(),)
DIALECT = Dialect(
    name="functionary_v31",
    marks=("<function=", _RECIPIENT),
    reader=Functionary(
        {
            "<function=": (NAMED_FUNCTION,),
            _FROM: _CALLS,
            _RECIPIENT: _CALLS,
            "[": BARE_JSON,
            "{": BARE_JSON,
        },
        first=("[", "{"),
    ),
    render=Renderer(call="<function=$name>$arguments</function>", between=""),
)
