"""One item of an answer while it comes.

Text and arguments may come in pieces, whole at the end of their part, whole at the end of their
item, or only in the last event of all. Every place is read: what a later one says beyond the pieces
is written then, and what it repeats is not.
"""

from typing_extensions import override

from toolbridge.codecs.openai_responses.builtins import BY_CALL, read_known
from toolbridge.codecs.openai_responses.decode_items import seal_thought
from toolbridge.codecs.openai_responses.marks import full_name, seal_item
from toolbridge.codecs.openai_responses.shapes import ORIGIN, Item
from toolbridge.core.answer_losses import kind_name
from toolbridge.core.draft import Draft
from toolbridge.core.events import Event
from toolbridge.core.fences import fenced
from toolbridge.core.json import Json, JsonObject, dumps, replace_lone_surrogates
from toolbridge.core.logprobs import read_logprobs
from toolbridge.core.messages import Foreign, Image, Opaque


class OutputWriter:
    """What was written so far."""

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
        """Return what `whole` has beyond what was written; nothing when it says something else."""
        self._pieces = ["".join(self._pieces)] if self._pieces else []
        before = self._pieces[0] if self._pieces else ""
        return self.add(whole[len(before) :]) if whole.startswith(before) else ""


class OutputItem:
    """An item that only its own API understands: it counts when it is whole."""

    kind = ""

    def __init__(self, draft: Draft, item: Item) -> None:
        self._draft = draft
        self.item = item
        self.done = False

    def begin(self) -> list[Event]:
        """Say what the announcement of an item tells."""
        return []

    def write(self, _piece: str, _place: int, _channel: str, /) -> list[Event]:
        return []

    def fill(self, _whole: str, _place: int, _channel: str, /) -> list[Event]:
        """Write what is missing of a part that came whole."""
        return []

    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        """End with what the last word on this item says."""
        if not raw:
            return []
        return self._draft.add(Foreign(ORIGIN, item.type, raw, text=_show_code(raw)))


def _fields(item: Item) -> JsonObject:
    return {"id": item.id, "phase": item.phase} if item.phase else {"id": item.id}


_SPOKEN = frozenset({"output_text", "text", "refusal", None})
"""The types of what a message says."""


class SpokenOutput(OutputItem):
    """A message: its parts are texts."""

    kind = "message"

    def __init__(self, draft: Draft, item: Item) -> None:
        super().__init__(draft, item)
        self._texts: dict[int, OutputWriter] = {}
        self._citations: dict[int, list[JsonObject]] = {}
        self.refused = False
        self._measured = False
        """Whether deltas came with the log probabilities of their tokens."""

    @override
    def write(self, piece: str, place: int, channel: str, /) -> list[Event]:
        self.refused = self.refused or channel == "refusal"
        written = self._texts.get(place)
        if written is None:
            written = self._texts[place] = OutputWriter()
        written.add(piece)
        return self._draft.text(piece, (self, place))

    @override
    def fill(self, whole: str, place: int, channel: str, /) -> list[Event]:
        rest = self._texts.setdefault(place, OutputWriter()).add_rest(whole)
        self.refused = self.refused or channel == "refusal"
        return self._draft.text(rest, (self, place))

    def measure(self, logprobs: Json) -> list[Event]:
        self._measured = True
        return self._draft.logprobs(read_logprobs(logprobs))

    def cite(self, annotation: JsonObject, place: int) -> None:
        self._citations.setdefault(place, []).append(annotation)

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        said: list[Event] = []
        for place, part in enumerate(item.content or ()):
            channel = "refusal" if part.get("type") == "refusal" else "text"
            text = _text(part, channel) or _text(part, "transcript")
            said += self.fill(text, place, channel)
            if part.get("type") not in _SPOKEN:
                kind = kind_name(str(part.get("type") or ""))
                said += self._draft.lose(f"answer.{kind}", "events hold no such part of a message")
            if not self._measured and part.get("logprobs"):
                said += self._draft.logprobs(read_logprobs(part["logprobs"]))
            cited = part.get("annotations")
            if isinstance(cited, list) and cited:
                self._citations[place] = [one for one in cited if isinstance(one, dict)]
        self.item = item if item.id else self.item
        return said + self._end()

    def _end(self) -> list[Event]:
        said: list[Event] = []
        opaque = seal_item(_fields(self.item))
        for place in sorted(self._texts):
            key = (self, place)
            if not self._draft.is_open(key):
                continue
            for citation in self._citations.get(place, ()):
                said += self._draft.cite(citation, key)
            for token in opaque:
                said += self._draft.seal(token, key)
            opaque = ()  # the first text of a message speaks for it
            said += self._draft.end(key)
        return said


class ThoughtOutput(OutputItem):
    """A thought: a summary in parts, or what was thought in full; the one that comes first."""

    kind = "reasoning"

    def __init__(self, draft: Draft, item: Item) -> None:
        super().__init__(draft, item)
        self._channel = ""
        self._parts: dict[int, OutputWriter] = {}

    @override
    def write(self, piece: str, place: int, channel: str, /) -> list[Event]:
        self._channel = self._channel or channel
        if channel != self._channel or not piece:
            return []
        written = self._parts.get(place)
        gap = "\n\n" if written is None and any(self._parts.values()) else ""
        self._parts.setdefault(place, OutputWriter()).add(piece)
        return self._draft.think(gap + piece, self)

    @override
    def fill(self, whole: str, place: int, channel: str, /) -> list[Event]:
        if self._channel not in {"", channel}:
            return []
        written = self._parts.get(place)
        if written is None:
            return self.write(whole, place, channel)
        return self._draft.think(written.add_rest(whole), self)

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        said: list[Event] = []
        summary = [_text(part, "text") for part in item.summary or ()]
        content = [_text(part, "text") for part in item.content or ()]
        for channel, texts in (("summary", summary), ("content", content)):
            for place, text in enumerate(texts):
                said += self.fill(text, place, channel)
        if item.encrypted_content:
            said += self._draft.seal(Opaque(ORIGIN, "encrypted", item.encrypted_content), self)
        if not content and self._channel == "content":
            # Ended before its own end came. llama.cpp takes a thought back only with its content.
            content = [str(self._parts[place]) for place in sorted(self._parts)]
        if self._draft.is_open(self):
            self.item = item if item.id else self.item
            for token in seal_thought(_fields(self.item), summary, content):
                said += self._draft.seal(token, self)
        return said + self._draft.end(self)


class CallOutput(OutputItem):
    """A call of a function. Until its name is known, its arguments wait."""

    kind = "function_call"

    def __init__(self, draft: Draft, item: Item) -> None:
        super().__init__(draft, item)
        self._opened = False
        self._held: list[str] = []
        self._written = OutputWriter()

    @override
    def begin(self) -> list[Event]:
        if self._opened or not self.item.name:
            return []
        return self._open(self.item)

    @override
    def write(self, piece: str, place: int, channel: str, /) -> list[Event]:
        self._written.add(piece)
        return self._pour(self._encoded(piece))

    @override
    def fill(self, whole: str, place: int, channel: str, /) -> list[Event]:
        return self._pour(self._encoded(self._written.add_rest(whole)))

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        said: list[Event] = [] if self._opened else self._open(item)
        said += self.fill(self._whole(item) or self._whole(self.item), 0, "")
        said += self._pour(self._ending(item))
        for token in seal_item(_fields(item if item.id else self.item)):
            self._draft.tag_call(self, token)
        return said + self._draft.end(self)

    def _open(self, item: Item) -> list[Event]:
        self._opened = True
        self.item = item if item.name else self.item
        named = self.item
        name = full_name(named.name or "", named.namespace)
        said = self._draft.call(self, name=name, id=named.call_id or named.id or "")
        return said + self._pour("".join(self._held))

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
    """A call of a tool that takes free text, which becomes the one string of a JSON object."""

    kind = "custom_tool_call"

    def __init__(self, draft: Draft, item: Item) -> None:
        super().__init__(draft, item)
        self._begun = False
        self._half = ""

    @override
    def _encoded(self, piece: str) -> str:
        if not piece:
            return ""
        # Half of a surrogate pair waits for the other half, which the next piece brings.
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
        """Close the string, unless the text was cut: nobody may run half of it."""
        if item.status == "incomplete":
            return ""
        return self._beginning() + '"}'


class PictureOutput(OutputItem):
    """A picture that the model made."""

    kind = "image_generation_call"

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        data = _text(raw, "result")
        if not data:
            return super().finish(item, raw)
        format = _text(raw, "output_format") or "png"
        beside: JsonObject = {name: raw[name] for name in _PICTURED if raw.get(name) is not None}
        image = Image(data=data, media_type=f"image/{format}", opaque=seal_item(beside))
        return self._draft.add(image)


_PICTURED = ("id", "action", "background", "quality", "revised_prompt", "size")
"""What a picture says beside itself."""


class BuiltinOutput(OutputItem):
    """A call of a tool that the client runs: known when it is whole."""

    def __init__(self, draft: Draft, item: Item) -> None:
        super().__init__(draft, item)
        self.kind = item.type

    @override
    def finish(self, item: Item, raw: JsonObject, /) -> list[Event]:
        arguments = None if item.status == "incomplete" else read_known(raw)
        if arguments is None:
            return super().finish(item, raw)
        id = item.call_id or item.id or ""
        said = self._draft.call(self, name=BY_CALL[item.type].type, id=id)
        said += self._draft.arguments(self, dumps(arguments))
        for token in seal_item({"type": item.type, **_fields(item)}):
            self._draft.tag_call(self, token)
        return said + self._draft.end(self)


def _text(part: JsonObject, channel: str) -> str:
    text = part.get(channel)
    return text if isinstance(text, str) else ""


def _show_code(item: JsonObject) -> str:
    """Return code that OpenAI ran and what it printed, as other APIs can show them."""
    if item.get("type") != "code_interpreter_call":
        return ""
    given = item.get("outputs")
    outputs = given if isinstance(given, list) else []
    printed = (_text(output, "logs") for output in outputs if isinstance(output, dict))
    return fenced(_text(item, "code"), "python") + "".join(map(fenced, printed))


OUTPUTS: dict[str, type[OutputItem]] = {
    output.kind: output
    for output in (SpokenOutput, ThoughtOutput, CallOutput, FreeCallOutput, PictureOutput)
} | dict.fromkeys(BY_CALL, BuiltinOutput)
