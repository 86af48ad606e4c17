"""Output items of an answer while they are streamed.

OpenAI Responses, streaming events: text and arguments arrive in deltas, and again whole in the
`.done` event of their part, in `output_item.done` and in the last event. Compatible servers leave
some of these out (BerriAI/litellm#25321: arguments only in `.done`), so all are read; only what is
missing is written.
"""

from typing_extensions import override

from toolbridge.codecs.openai_responses.builtins import BY_CALL, decode_known_arguments
from toolbridge.codecs.openai_responses.decode_hosted import (
    HOSTED_TYPES,
    decode_answered,
    is_hosted,
)
from toolbridge.codecs.openai_responses.item_fields import full_name, seal_item
from toolbridge.codecs.openai_responses.shapes import ORIGIN, Item
from toolbridge.codecs.openai_responses.thinking import seal_thought
from toolbridge.core.answer_losses import kind_name
from toolbridge.core.draft import Draft
from toolbridge.core.events import Event
from toolbridge.core.json import Json, JsonObject, dumps, replace_lone_surrogates
from toolbridge.core.logprobs import read_logprobs
from toolbridge.core.messages import Foreign, Image, Opaque


class WrittenText:
    """The text that was written so far."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __str__(self) -> str:
        return "".join(self._pieces)

    def add(self, piece: str) -> str:
        if piece:
            self._pieces.append(piece)
        return piece

    def add_rest(self, whole: str) -> str:
        """Return the rest of `whole`; nothing if it does not begin with the written text."""
        self._pieces = ["".join(self._pieces)] if self._pieces else []
        before = self._pieces[0] if self._pieces else ""
        return self.add(whole[len(before) :]) if whole.startswith(before) else ""


class OutputItem:
    """An item that no other API has; it is passed on when it is complete."""

    kind = ""

    def __init__(self, draft: Draft, item: Item) -> None:
        self._draft = draft
        self.item = item
        self.done = False

    def begin(self) -> list[Event]:
        """Return the events for the announcement of the item."""
        return []

    def write(self, _piece: str, _index: int, _channel: str, /) -> list[Event]:
        """Return the events for a delta of the part with this index."""
        return []

    def fill(self, _whole: str, _index: int, _channel: str, /) -> list[Event]:
        """Return the events for what is missing of a whole part."""
        return []

    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        """Return the events that complete the item; `raw` is empty without `output_item.done`."""
        if not raw:
            return []
        return self._draft.add(Foreign(ORIGIN, item.type, raw))


def _fields(item: Item) -> JsonObject:
    # OpenAI Responses, gpt-5.3-codex and later: `phase` of a message must be sent back.
    return {"id": item.id, "phase": item.phase} if item.phase else {"id": item.id}


_TEXT_TYPES = frozenset({"output_text", "text", "refusal", None})
"""The types of content parts that contain text."""


class MessageOutput(OutputItem):
    """A message; each of its content parts becomes a text."""

    kind = "message"

    def __init__(self, draft: Draft, item: Item) -> None:
        super().__init__(draft, item)
        self._texts: dict[int, WrittenText] = {}
        self._citations: dict[int, list[JsonObject]] = {}
        self.refused = False
        self._measured = False
        """True if deltas had the log probabilities of their tokens."""

    @override
    def write(self, piece: str, index: int, channel: str, /) -> list[Event]:
        self.refused = self.refused or channel == "refusal"
        written = self._texts.get(index)
        if written is None:
            written = self._texts[index] = WrittenText()
        written.add(piece)
        return self._draft.text(piece, (self, index))

    @override
    def fill(self, whole: str, index: int, channel: str, /) -> list[Event]:
        rest = self._texts.setdefault(index, WrittenText()).add_rest(whole)
        self.refused = self.refused or channel == "refusal"
        return self._draft.text(rest, (self, index))

    def add_logprobs(self, logprobs: Json) -> list[Event]:
        self._measured = True
        return self._draft.logprobs(read_logprobs(logprobs))

    def cite(self, annotation: JsonObject, index: int) -> None:
        self._citations.setdefault(index, []).append(annotation)

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        events: list[Event] = []
        for index, part in enumerate(item.content or ()):
            channel = "refusal" if part.get("type") == "refusal" else "text"
            text = _text(part, channel) or _text(part, "transcript")
            events += self.fill(text, index, channel)
            if part.get("type") not in _TEXT_TYPES:
                kind = kind_name(str(part.get("type") or ""))
                events += self._draft.lose(f"answer.{kind}", "this content type is not supported")
            if not self._measured and part.get("logprobs"):
                events += self._draft.logprobs(read_logprobs(part["logprobs"]))
            cited = part.get("annotations")
            if isinstance(cited, list) and cited:
                self._citations[index] = [one for one in cited if isinstance(one, dict)]
        self.item = item if item.id else self.item
        return events + self._end()

    def _end(self) -> list[Event]:
        events: list[Event] = []
        opaque = seal_item(_fields(self.item))
        for index in sorted(self._texts):
            key = (self, index)
            if not self._draft.is_open(key):
                continue
            for citation in self._citations.get(index, ()):
                events += self._draft.cite(citation, key)
            for token in opaque:
                events += self._draft.seal(token, key)
            opaque = ()  # only the first text keeps the fields of the message
            events += self._draft.end(key)
        return events


class ThoughtOutput(OutputItem):
    """A thought: its summary parts or its full text, whichever arrives first."""

    kind = "reasoning"

    def __init__(self, draft: Draft, item: Item) -> None:
        super().__init__(draft, item)
        self._channel = ""
        self._parts: dict[int, WrittenText] = {}

    @override
    def write(self, piece: str, index: int, channel: str, /) -> list[Event]:
        self._channel = self._channel or channel
        if channel != self._channel or not piece:
            return []
        written = self._parts.get(index)
        # Parts of a summary are paragraphs; each has its own `summary_index`.
        gap = "\n\n" if written is None and any(self._parts.values()) else ""
        self._parts.setdefault(index, WrittenText()).add(piece)
        return self._draft.think(gap + piece, self)

    @override
    def fill(self, whole: str, index: int, channel: str, /) -> list[Event]:
        if self._channel not in {"", channel}:
            return []
        written = self._parts.get(index)
        if written is None:
            return self.write(whole, index, channel)
        return self._draft.think(written.add_rest(whole), self)

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        events: list[Event] = []
        summary = [_text(part, "text") for part in item.summary or ()]
        content = [_text(part, "text") for part in item.content or ()]
        for channel, texts in (("summary", summary), ("content", content)):
            for index, text in enumerate(texts):
                events += self.fill(text, index, channel)
        # OpenAI Responses: `encrypted_content` is complete only in `output_item.done`.
        if item.encrypted_content:
            events += self._draft.seal(Opaque(ORIGIN, "encrypted", item.encrypted_content), self)
        if not content and self._channel == "content":
            # The item ended without `output_item.done`: keep its text, which llama.cpp needs back.
            content = [str(self._parts[index]) for index in sorted(self._parts)]
        if self._draft.is_open(self):
            self.item = item if item.id else self.item
            for token in seal_thought(_fields(self.item), summary, content):
                events += self._draft.seal(token, self)
        return events + self._draft.end(self)


class CallOutput(OutputItem):
    """A function call; its arguments are held until its name is known."""

    kind = "function_call"

    def __init__(self, draft: Draft, item: Item) -> None:
        super().__init__(draft, item)
        self._opened = False
        self._held: list[str] = []
        self._written = WrittenText()

    @override
    def begin(self) -> list[Event]:
        if self._opened or not self.item.name:
            return []
        return self._open(self.item)

    @override
    def write(self, piece: str, index: int, channel: str, /) -> list[Event]:
        self._written.add(piece)
        return self._pour(self._encoded(piece))

    @override
    def fill(self, whole: str, index: int, channel: str, /) -> list[Event]:
        return self._pour(self._encoded(self._written.add_rest(whole)))

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        events: list[Event] = [] if self._opened else self._open(item)
        events += self.fill(self._whole(item) or self._whole(self.item), 0, "")
        events += self._pour(self._ending(item))
        for token in seal_item(_fields(item if item.id else self.item)):
            self._draft.tag_call(self, token)
        return events + self._draft.end(self)

    def _open(self, item: Item) -> list[Event]:
        self._opened = True
        self.item = item if item.name else self.item
        named = self.item
        # OpenAI Responses: name and `call_id` are in the item only, never in the deltas.
        name = full_name(named.name or "", named.namespace)
        events = self._draft.call(self, name=name, id=named.call_id or named.id or "")
        return events + self._pour("".join(self._held))

    def _pour(self, piece: str) -> list[Event]:
        if not self._opened:
            self._held.append(piece)
        return self._draft.arguments(self, piece) if self._draft.is_open(self) else []

    def _encoded(self, piece: str) -> str:
        return piece

    def _whole(self, item: Item) -> str:
        return item.arguments or ""

    def _ending(self, _item: Item, /) -> str:
        return ""


class FreeCallOutput(CallOutput):
    """A custom tool call; its text becomes the string `input` of a JSON object."""

    kind = "custom_tool_call"

    def __init__(self, draft: Draft, item: Item) -> None:
        super().__init__(draft, item)
        self._begun = False
        self._half = ""

    @override
    def _encoded(self, piece: str) -> str:
        if not piece:
            return ""
        # A high surrogate at the end is held: the next piece may begin with its low surrogate.
        whole = self._half + piece
        self._half = whole[-1] if "\ud800" <= whole[-1] <= "\udbff" else ""
        whole = replace_lone_surrogates(whole[: len(whole) - len(self._half)])
        return self._beginning() + dumps(whole)[1:-1]

    def _beginning(self) -> str:
        if self._begun:
            return ""
        self._begun = True
        return '{"input":"'

    @override
    def _whole(self, item: Item) -> str:
        return item.input or ""

    @override
    def _ending(self, item: Item, /) -> str:
        """Return the end of the JSON; nothing for an incomplete call, which must not be run."""
        if item.status == "incomplete":
            return ""
        return self._beginning() + '"}'


class ImageOutput(OutputItem):
    """An image that the model generated."""

    kind = "image_generation_call"

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        data = _text(raw, "result")
        if not data:
            return super().finish(item, raw)
        format = _text(raw, "output_format") or "png"
        beside: JsonObject = {
            name: raw[name] for name in _IMAGE_FIELDS if raw.get(name) is not None
        }
        image = Image(data=data, media_type=f"image/{format}", opaque=seal_item(beside))
        return self._draft.add(image)


_IMAGE_FIELDS = ("id", "action", "background", "quality", "revised_prompt", "size")
"""Fields of the item that are kept with the image."""


class HostedOutput(OutputItem):
    """A call of a tool that the server ran, with its result; read when the item is complete."""

    def __init__(self, draft: Draft, item: Item) -> None:
        super().__init__(draft, item)
        self.kind = item.type
        self.searched = False

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        parts = decode_answered(raw) if raw else ()
        self.searched = any(part.kind == "web_search" for part in parts)
        return [event for part in parts for event in self._draft.add(part)]


class BuiltinOutput(HostedOutput):
    """A call of a built-in tool, written when the item is complete.

    The server runs a tool search without `execution: client`.
    """

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        if is_hosted(raw):
            return super().finish(item, raw)
        arguments = None if item.status == "incomplete" else decode_known_arguments(raw)
        if arguments is None:
            return OutputItem.finish(self, item, raw)
        id = item.call_id or item.id or ""
        events = self._draft.call(self, name=BY_CALL[item.type].type, id=id)
        events += self._draft.arguments(self, dumps(arguments))
        for token in seal_item({"type": item.type, **_fields(item)}):
            self._draft.tag_call(self, token)
        return events + self._draft.end(self)


def _text(part: JsonObject, channel: str) -> str:
    text = part.get(channel)
    return text if isinstance(text, str) else ""


OUTPUTS: dict[str, type[OutputItem]] = {
    output.kind: output
    for output in (MessageOutput, ThoughtOutput, CallOutput, FreeCallOutput, ImageOutput)
}
OUTPUTS |= dict.fromkeys(HOSTED_TYPES, HostedOutput) | dict.fromkeys(BY_CALL, BuiltinOutput)
