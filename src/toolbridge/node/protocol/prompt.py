"""A conversation as one text, the only form of history that a node accepts.

There are two styles, chosen by the quirk `framing`. `chatml` uses the turn markers that many models
were trained on; nodes since 8.5.5 delete such markers, which joins the turns. `labelled` separates
turns by the lines `System:`, `User:` and `Assistant:`, which nodes leave alone. In the content of
turns both kinds of markers are escaped (`markers`), so that content cannot begin a turn.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.errors import MalformedRequest, TooLarge
from toolbridge.core.json import dumps
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Loss,
    Part,
    Reference,
    Request,
    Result,
    Role,
    Text,
    Thinking,
)
from toolbridge.core.server_tool_text import server_text
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.node.protocol.markers import escape, escape_labels

Style: TypeAlias = Literal["chatml", "labelled"]

MAX_IMAGE = 13_333_334
"""Characters of base64 per image, about 10 MB; the limit of the vendor's client."""

_FORMATS = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/webp": "webp",
    "image/gif": "gif",
}
_LABELS: dict[Role, str] = {"system": "System:", "user": "User:", "assistant": "Assistant:"}


class Attachment(msgspec.Struct, frozen=True):
    """An image that is sent beside the prompt."""

    data: str
    """Base64, without a `data:` prefix."""
    format: str


class FlatPrompt(msgspec.Struct, frozen=True):
    """A conversation as one text, with its images and what could not be expressed."""

    prompt: str
    images: tuple[Attachment, ...] = ()
    losses: tuple[Loss, ...] = ()


def write_prompt(request: Request, style: Style = "chatml") -> FlatPrompt:
    """Return the system prompt and all turns as one text that ends with the assistant's marker."""
    if not request.turns:
        raise MalformedRequest("at least one message is needed", where="messages")
    writer = _Writer(style)
    system = "\n\n".join(part.text for part in request.system if part.text)
    turns: list[tuple[Role, str]] = []
    if system:
        turns.append(("system", writer.escape(system, "system")))
    for number, turn in enumerate(request.turns):
        where = f"turns.{number}.content"
        parts = [writer.write(part, f"{where}.{n}") for n, part in enumerate(turn.content)]
        text = "\n".join(part for part in parts if part)
        turns.append((turn.role, writer.escape(text, where)))
    prompt = _STYLES[style](turns)
    return FlatPrompt(prompt, tuple(writer.images), tuple(writer.losses))


def _chatml(turns: list[tuple[Role, str]]) -> str:
    written = "".join(f"<|im_start|>{role}\n{text}\n<|im_end|>\n" for role, text in turns)
    return f"{written}<|im_start|>assistant\n"


def _labelled(turns: list[tuple[Role, str]]) -> str:
    written = "".join(f"{_LABELS[role]}\n{text}\n\n" for role, text in turns)
    return f"{written}{_LABELS['assistant']}"


_STYLES: dict[Style, Callable[[list[tuple[Role, str]]], str]] = {
    "chatml": _chatml,
    "labelled": _labelled,
}


class _Writer:
    """Writes parts as text and collects images and losses."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self.images: list[Attachment] = []
        self.losses: list[Loss] = []

    def escape(self, text: str, where: str) -> str:
        """Return the text of a turn with its turn markers escaped."""
        found = escape(text)
        if self._style == "labelled":
            found = escape_labels(found)
        if found != text:
            self._lose(where, "turn markers in it are escaped with a word joiner (U+2060)")
        return found

    def write(self, part: Part, where: str) -> str:
        match part:
            case Text(text):
                return text
            case Call(name=name, arguments=arguments, raw=raw):
                return f"[Tool Use: {name}]\n{raw or dumps(arguments)}"
            case Result():
                return self._result(part, where)
            case Image():
                return self._attach(part, where)
            case Document(text=text) if text:
                return text
            case ServerCall() | ServerResult():
                return server_text(part)
            case Thinking():
                return self._lose(where, "a node's prompt cannot carry earlier thinking")
            case Document() | Audio() | Foreign() | Reference():
                kind = type(part).__name__.lower()
                return self._lose(where, f"a node accepts text and images, not {kind}")

    def _result(self, result: Result, where: str) -> str:
        parts = [self.write(part, f"{where}.content.{n}") for n, part in enumerate(result.content)]
        text = "\n".join(part for part in parts if part)
        text = f"Error: {text}" if result.is_error else text
        return f"[Tool Result: {result.call_id}]\n{text}"

    def _attach(self, image: Image, where: str) -> str:
        if not image.data:
            return self._lose(where, "a node accepts images as data, not as a URL")
        format = _FORMATS.get(image.media_type.lower())
        if format is None:
            return self._lose(
                where, f"a node does not accept {image.media_type or 'an image without a type'}"
            )
        if len(image.data) > MAX_IMAGE:
            raise TooLarge(
                f"the image exceeds {MAX_IMAGE} base64 characters; send a smaller one", where=where
            )
        self.images.append(Attachment(image.data, format))
        return ""

    def _lose(self, what: str, why: str) -> str:
        self.losses.append(Loss(what, why))
        return ""
