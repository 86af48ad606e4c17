"""Our turns, as Ollama's messages.

Ollama, docs/api: the content of a message is a string, images stand beside it as base64, and each
result is a message of its own.
"""

import msgspec
from typing_extensions import TypeIs

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.core.codec import Target
from toolbridge.core.data_url import split_data_url
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Loss,
    Part,
    Reference,
    Result,
    Text,
    Thinking,
    Tool,
    Turn,
)
from toolbridge.core.parts_text import available_text, document_text, foreign_text
from toolbridge.core.server_tool_text import server_text
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.core.shared_fields import foreign_why
from toolbridge.core.source import own_words


class TurnEncoder(msgspec.Struct, eq=False):
    """Writes the messages of one request and reports what a message cannot hold."""

    _tools: tuple[Tool, ...]
    _target: Target
    model: str
    losses: list[Loss]
    calls: dict[str, str] = {}
    """The names of the tools by the ids of the calls so far: results are sent with both."""

    def _lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def encode(self, number: int, turn: Turn) -> list[JsonObject]:
        """Return the messages of a turn; `number` is its index."""
        if turn.role != "assistant" and len(turn.content) == 1:
            only = turn.content[0]
            if isinstance(only, Text) and not only.citations:  # as most questions
                return [{"role": turn.role, "content": only.text}]
        where = f"turns.{number}.content"
        if turn.role == "assistant":
            return [self._assistant(where, turn)]
        results: list[JsonObject] = []
        rest = _Content(self, joint="\n")
        beside: JsonObject = {}
        for index, part in enumerate(turn.content):
            if _is_fields(part):
                beside |= part.raw
            elif isinstance(part, Result):
                results.append(self._result(f"{where}.{index}", part))
            else:
                rest.add(f"{where}.{index}", part)
        if results and rest.empty:
            return results
        return [*results, {"role": turn.role, **rest.fields(), **beside}]

    def _assistant(self, where: str, turn: Turn) -> JsonObject:
        # The blocks of an answer are one text: the model wrote no line ends between them.
        content = _Content(self, joint="")
        thinking: list[str] = []
        calls: list[Json] = []
        broken = False
        for index, part in enumerate(turn.content):
            if isinstance(part, Thinking):
                thinking.append(part.text)
            elif isinstance(part, Call):
                broken = broken or bool(part.raw)
                self.calls[part.id] = part.name
                calls.append(encode_call(part, len(calls)))
            else:
                content.add(f"{where}.{index}", part)
        written = None if broken else own_words(turn, ORIGIN)
        if written is not None:
            return written
        message: JsonObject = {"role": "assistant", **content.fields()}
        # Ollama, docs/api: `thinking` of past answers goes to templates that use it.
        if thought := "".join(thinking):
            message["thinking"] = thought
        if calls:
            message["tool_calls"] = calls
        return message

    def _result(self, where: str, result: Result) -> JsonObject:
        written = own_words(result, ORIGIN)
        if written is not None and (self._target.can("vision") or "images" not in written):
            return written
        content = _Content(self, joint="\n")
        for index, part in enumerate(result.content):
            content.add(f"{where}.content.{index}", part)
        message: JsonObject = {"role": "tool", **content.fields(error=result.is_error)}
        # Ollama, docs/api: `tool_name`; newer servers read `tool_call_id` too.
        if name := result.name or self.calls.get(result.call_id):
            message["tool_name"] = name
        message["tool_call_id"] = result.call_id
        return message

    # ── parts, each as text or as an image ──

    def text(self, where: str, part: Part) -> str:
        """Return the text of a part that is not media."""
        match part:
            case Text(text):
                if part.citations:
                    self._lose(f"{where}.citations", "Ollama's text has no citations")
                return text
            case Document():
                return self._document(where, part)
            case Reference(name):
                tool = next((tool for tool in reversed(self._tools) if tool.name == name), None)
                return available_text(name, tool.schema if tool else None)
            case Foreign(origin, kind):
                self._lose(where, foreign_why(origin, kind))
                return foreign_text(part.raw)
            case ServerCall() | ServerResult():
                return server_text(part)
            case _:
                self._lose(where, "a message of Ollama's cannot hold such a part")
                return ""

    def image(self, where: str, image: Image) -> tuple[str, str]:
        """Return the base64 of an image, or "" and a text in its place."""
        model = self.model
        if not self._target.can("vision"):
            self._lose(where, f"{model} cannot see images")
            return "", f"[image omitted: {model} cannot see images]"
        _, data = split_data_url(image.url)
        if image.data or data:
            return image.data or data, ""
        # Ollama, docs/api: `images` holds base64; URLs are not fetched.
        self._lose(where, "Ollama takes images as data, not by reference")
        return "", f"[image {image.url or image.file_id} could not be shown to this model]"

    def audio(self, where: str, audio: Audio) -> tuple[str, str]:
        """Return the base64 of a sound, or "" and a text in its place.

        Ollama, OpenAI compatibility: models with the capability `audio` get sounds in `images`.
        """
        if self._target.can("audio", unknown=False):
            return audio.data, ""
        self._lose(where, f"{self.model} takes no audio")
        return "", f"[audio omitted: {self.model} cannot hear it]"

    def _document(self, where: str, document: Document) -> str:
        if document.cite:
            self._lose(f"{where}.cite", "Ollama cites no documents")
        if text := document_text(document):
            return text
        self._lose(where, "Ollama takes documents only as text")
        title = f"document {document.title}" if document.title else "document"
        return f"[{title} could not be shown to this model]"


class _Content:
    """Collects the text and the images of one message."""

    def __init__(self, encoder: TurnEncoder, *, joint: str) -> None:
        self._encoder = encoder
        self._joint = joint
        self._texts: list[str] = []
        self._images: list[Json] = []

    @property
    def empty(self) -> bool:
        return not self._texts and not self._images

    def add(self, where: str, part: Part) -> None:
        if type(part) is Text and not part.citations:
            if part.text:  # as nearly every part
                self._texts.append(part.text)
            return
        match part:
            case Image():
                data, instead = self._encoder.image(where, part)
            case Audio():
                data, instead = self._encoder.audio(where, part)
            case _:
                data, instead = "", self._encoder.text(where, part)
        if data:
            self._images.append(data)
        elif instead:
            self._texts.append(instead)

    def fields(self, *, error: bool = False) -> JsonObject:
        content = self._joint.join(self._texts)
        if error and not content.startswith(shapes.ERROR_MARK):
            content = shapes.ERROR_MARK + content
        fields: JsonObject = {"content": content}
        if self._images:
            fields["images"] = self._images
        return fields


def _is_fields(part: Part) -> TypeIs[Foreign]:
    return isinstance(part, Foreign) and (part.origin, part.kind) == (ORIGIN, shapes.MESSAGE)


def encode_call(call: Call, number: int) -> JsonObject:
    """Return a call; arguments that are not a JSON object are sent as the text `raw`."""
    # Ollama, api/types.go: `arguments` is an object, and a string is rejected.
    arguments: JsonObject = {"raw": call.raw} if call.raw else call.arguments
    return {
        "id": call.id,
        "function": {"index": number, "name": call.name, "arguments": arguments},
    }
