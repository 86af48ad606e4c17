"""Our turns as Ollama's messages: a string, pictures beside it, one message for each result."""

from base64 import b64decode
from binascii import Error

from typing_extensions import TypeIs

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.media import split_data_url
from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.core.codec import Target
from toolbridge.core.json import Json, JsonObject, dumps
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
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.shared_fields import foreign_why
from toolbridge.core.source import own_words


class TurnEncoder:
    """Writes the messages of one request and keeps what could not be said."""

    def __init__(self, request: Request, target: Target) -> None:
        self._tools = {tool.name: tool for tool in request.tools}
        self._target = target
        self._model = target.model or request.model
        self._names: dict[str, str] = {}
        """Of the tools, by the ids of the calls so far: results are sent with both."""
        self.losses: list[Loss] = []

    def encode(self, number: int, turn: Turn) -> list[JsonObject]:
        where = f"turns.{number}.content"
        if turn.role == "assistant":
            return [self._assistant(where, turn)]
        results: list[JsonObject] = []
        rest = _Content(self, joint="\n")
        beside: JsonObject = {}
        for place, part in enumerate(turn.content):
            if _is_fields(part):
                beside |= part.raw
            elif isinstance(part, Result):
                results.append(self._result(f"{where}.{place}", part))
            else:
                rest.add(f"{where}.{place}", part)
        if results and rest.empty:
            return results
        return [*results, {"role": turn.role, **rest.fields(), **beside}]

    def _assistant(self, where: str, turn: Turn) -> JsonObject:
        # Text that a model said in several blocks was one text when it said it.
        content = _Content(self, joint="")
        thinking: list[str] = []
        calls: list[Json] = []
        for place, part in enumerate(turn.content):
            if isinstance(part, Thinking):
                thinking.append(part.text)
            elif isinstance(part, Call):
                self._names[part.id] = part.name
                calls.append(encode_call(part, len(calls)))
            else:
                content.add(f"{where}.{place}", part)
        said = None if any(_is_broken(part) for part in turn.content) else own_words(turn, ORIGIN)
        if said is not None:
            return said
        message: JsonObject = {"role": "assistant", **content.fields()}
        if thought := "".join(thinking):
            message["thinking"] = thought
        if calls:
            message["tool_calls"] = calls
        return message

    def _result(self, where: str, result: Result) -> JsonObject:
        said = own_words(result, ORIGIN)
        if said is not None and (self._target.can("vision") or "images" not in said):
            return said
        content = _Content(self, joint="\n")
        for place, part in enumerate(result.content):
            content.add(f"{where}.content.{place}", part)
        message: JsonObject = {"role": "tool", **content.fields(error=result.is_error)}
        if name := result.name or self._names.get(result.call_id):
            message["tool_name"] = name
        message["tool_call_id"] = result.call_id
        return message

    # ── parts, each as text or as a picture ──

    def lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def text(self, where: str, part: Part) -> str:
        """Return what is left of a part that is no picture."""
        match part:
            case Text(text):
                if part.citations:
                    self.lose(f"{where}.citations", "Ollama's text has no citations")
                return text
            case Document():
                return self._document(where, part)
            case Reference(name):
                return self._reference(name)
            case Foreign(origin, kind):
                self.lose(where, foreign_why(origin, kind))
                return "\n".join(_texts(part.raw))
            case _:
                self.lose(where, "this part has no place in a message of Ollama's")
                return ""

    def image(self, where: str, image: Image) -> tuple[str, str]:
        """Return the base64 of a picture, or what to say in its place."""
        model = self._model
        if not self._target.can("vision"):
            self.lose(where, f"{model} cannot see images")
            return "", f"[image omitted: {model} cannot see images]"
        _, data = split_data_url(image.url)
        if image.data or data != image.url:
            return image.data or data, ""
        self.lose(where, "Ollama takes images as data, not by reference")
        return "", f"[image {image.url or image.file_id} could not be shown to this model]"

    def audio(self, where: str, audio: Audio) -> tuple[str, str]:
        """Return the base64 of a sound: models that can hear find it among the pictures."""
        if self._target.can("audio", unknown=False):
            return audio.data, ""
        self.lose(where, f"{self._model} cannot hear")
        return "", f"[audio omitted: {self._model} cannot hear it]"

    def _document(self, where: str, document: Document) -> str:
        if document.cite:
            self.lose(f"{where}.cite", "Ollama cites no documents")
        text = document.text or _text_data(document)
        if not text:
            self.lose(where, "Ollama takes documents only as text")
            title = f"document {document.title}" if document.title else "document"
            return f"[{title} could not be shown to this model]"
        title = f"[document: {document.title}]" if document.title else ""
        return "\n".join(line for line in (title, document.context, text) if line)

    def _reference(self, name: str) -> str:
        said = f"Tool {name} is now available"
        tool = self._tools.get(name)
        return f"{said}: {dumps(tool.schema)}" if tool else f"{said}."


class _Content:
    """The text and the pictures of one message, as they are gathered."""

    def __init__(self, encoder: TurnEncoder, *, joint: str) -> None:
        self._encoder = encoder
        self._joint = joint
        self._texts: list[str] = []
        self._images: list[Json] = []

    @property
    def empty(self) -> bool:
        return not self._texts and not self._images

    def add(self, where: str, part: Part) -> None:
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


def _is_broken(part: Part) -> bool:
    return isinstance(part, Call) and bool(part.raw)


def encode_call(call: Call, number: int) -> JsonObject:
    """Return a call; one that could not be read keeps the model's own words under `raw`."""
    arguments: JsonObject = {"raw": call.raw} if call.raw else call.arguments
    return {
        "id": call.id,
        "function": {"index": number, "name": call.name, "arguments": arguments},
    }


def _text_data(document: Document) -> str:
    if not document.data or not document.media_type.startswith("text/"):
        return ""
    try:
        return b64decode(document.data).decode("utf-8", "replace")
    except (Error, ValueError):
        return ""


def _texts(value: Json, depth: int = 6) -> list[str]:
    """Return the words inside a part of another API: a search's titles, links and passages."""
    if isinstance(value, list) and depth:
        return [text for item in value for text in _texts(item, depth - 1)]
    if not isinstance(value, dict) or not depth:
        return []
    found: list[str] = []
    for key, item in value.items():
        if isinstance(item, str) and key in {"title", "url", "text"}:
            found.append(item)
        else:
            found += _texts(item, depth - 1)
    return found
