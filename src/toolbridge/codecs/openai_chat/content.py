"""The content of a message, in both directions: a string, or a list of parts.

Text is written as one string, which every provider accepts. Parts are written only if a message
contains something other than text, or if the client sent parts.
"""

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.quirks import Quirks
from toolbridge.codecs.openai_chat.shapes import ERROR_MARK, ORIGIN
from toolbridge.core.citations import link
from toolbridge.core.codec import Target
from toolbridge.core.data_url import split_data_url
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import (
    Audio,
    Cache,
    Document,
    Foreign,
    Image,
    Loss,
    Origin,
    Part,
    Reference,
    ResultPart,
    Text,
    Tool,
)
from toolbridge.core.parts_text import available_text, document_text, foreign_text
from toolbridge.core.server_tool_text import server_text
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.core.shared_fields import foreign_why
from toolbridge.core.shared_texts import join_shared
from toolbridge.core.shared_tools import once_per_list
from toolbridge.core.source import own_words, sourced
from toolbridge.wire import shapes as wire

_parts = wire.StrictDecoder(shapes.ContentPart)
_objects = msgspec.json.Decoder(wire.AnyObject)

_FILE_NAME = "document.pdf"
"""The name of a file without one. OpenAI chat, file parts: `filename` is required with data."""
_AUDIO_TYPES = {"mp3": "audio/mpeg"}
_AUDIO_FORMATS = {media_type: format for format, media_type in _AUDIO_TYPES.items()}

# ── theirs to ours ───────────────────────────────────────────────────────────


def decode_content(content: str | list[msgspec.Raw] | None, where: str) -> list[ResultPart]:
    """Return the parts of a message's content."""
    if isinstance(content, str):
        return [Text(content, source=Origin(ORIGIN, where))] if content else []
    return [_decode_part(raw, f"{where}.{i}") for i, raw in enumerate(content or ())]


def _decode_part(raw: msgspec.Raw, where: str) -> ResultPart:
    part, unknown = _parts.decode(raw, where)
    found = _decode_known(part, raw, where)
    if isinstance(found, Foreign):
        return msgspec.structs.replace(found, source=Origin(ORIGIN, where))
    return sourced(found, Origin(ORIGIN, where, raw, unknown))


def _decode_known(part: shapes.ContentPart, raw: msgspec.Raw, where: str) -> ResultPart:
    match part.type:
        case "text":
            return Text(_required(part.text, f"{where}.text"), cache=_decode_cache(part))
        case "refusal":  # OpenAI chat: only in assistant messages
            return Text(_required(part.refusal, f"{where}.refusal"))
        case "image_url":
            return _decode_image(part, f"{where}.image_url")
        case "input_audio":
            audio = _required(part.input_audio, f"{where}.input_audio")
            return Audio(audio.data, _AUDIO_TYPES.get(audio.format, f"audio/{audio.format}"))
        case "file":
            return _decode_file(_required(part.file, f"{where}.file"), part, where)
        case kind:
            return Foreign(ORIGIN, kind, wire.decode_request(raw, _objects, where))


def _required(value: wire.T | None, where: str) -> wire.T:
    if value is None:
        raise MalformedRequest("field required", where=where)
    return value


def _decode_image(part: shapes.ContentPart, where: str) -> Image:
    given = part.image_url
    image = shapes.ImageUrl(given) if isinstance(given, str) else _required(given, where)
    media_type, data = split_data_url(image.url)
    return Image(
        data=data,
        media_type=media_type,
        url="" if data else image.url,
        detail=image.detail or "",
        cache=_decode_cache(part),
    )


def _decode_file(file: shapes.File, part: shapes.ContentPart, where: str) -> Document:
    title = "" if file.filename == _FILE_NAME else file.filename or ""
    cache = _decode_cache(part)
    if file.file_id:
        return Document(file_id=file.file_id, title=title, cache=cache)
    given = _required(file.file_data, f"{where}.file.file_data")
    media_type, data = split_data_url(given)
    # OpenAI chat, file parts: `file_data` is a data: URL. Some clients send bare base64 of a PDF.
    return Document(
        data=data or given, media_type=media_type or "application/pdf", title=title, cache=cache
    )


def _decode_cache(part: shapes.ContentPart) -> Cache:
    # OpenAI: 30 minutes or 12 hours. Anthropic's marks at OpenRouter: 5 minutes or 1 hour.
    given = part.prompt_cache_breakpoint or part.cache_control
    if given is None:
        return ""
    return "1h" if given.ttl in {"1h", "12h"} else "5m"


# ── ours to theirs ───────────────────────────────────────────────────────────


def decode_audio(pieces: list[shapes.AudioPiece]) -> Foreign:
    """Return the audio of an answer, which arrived in pieces."""
    raw: JsonObject = {
        "id": next((piece.id for piece in pieces if piece.id), ""),
        "data": "".join(piece.data or "" for piece in pieces),
        "transcript": "".join(piece.transcript or "" for piece in pieces),
        "expires_at": next((piece.expires_at for piece in pieces if piece.expires_at), 0),
    }
    return Foreign(shapes.ORIGIN, shapes.AUDIO, raw)


def decode_annotation(annotation: wire.AnyObject, before: int, size: int) -> JsonObject:
    """Return a `url_citation` as a link of ours; any other annotation unchanged."""
    inner = annotation.get("url_citation")
    if not isinstance(inner, dict) or not isinstance(inner.get("url"), str):
        return annotation
    start, end = inner.get("start_index"), inner.get("end_index")
    if not isinstance(start, int) or not isinstance(end, int):
        return link(str(inner["url"]), inner.get("title"))
    span = (start - before, end - before)
    known = 0 <= span[0] < span[1] <= size
    return link(str(inner["url"]), inner.get("title"), span if known else None)


@once_per_list
def tools_by_name(tools: tuple[Tool, ...]) -> dict[str, Tool]:
    """Return the tools of a request by their names."""
    return {tool.name: tool for tool in tools}


class PartEncoder(msgspec.Struct, eq=False):
    """Writes the parts of one request and collects the losses."""

    _origin: str
    _tools: dict[str, Tool]
    _target: Target
    _quirks: Quirks
    own: bool
    """Whether the client has this API, so that its own JSON is written again."""
    losses: list[Loss] = []

    def lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def _own_part(self, part: Part) -> JsonObject | None:
        """Return the part as the client sent it; None if the model cannot see it."""
        if not self.own or (isinstance(part, Image) and not self._target.can("vision")):
            return None
        return own_words(part, ORIGIN)

    def part(self, where: str, part: Part) -> JsonObject | str:
        """Return a part; a string if only its text is left."""
        written = self._own_part(part)
        if written is not None:
            return written
        match part:
            case Text(text):
                if part.citations:
                    self.lose(f"{where}.citations", "a request of this API cannot have citations")
                return text
            case Image():
                return self._image(where, part)
            case Audio(data, media_type):
                format = _AUDIO_FORMATS.get(media_type, media_type.removeprefix("audio/"))
                return {"type": "input_audio", "input_audio": {"data": data, "format": format}}
            case Document():
                return self._document(where, part)
            case Reference(name):
                tool = self._tools.get(name)
                return available_text(name, tool.schema if tool else None)
            case _:
                return self._other_part(where, part)

    def _other_part(self, where: str, part: Part) -> JsonObject | str:
        match part:
            case Foreign(origin, _, raw) if origin == ORIGIN:
                return raw
            case Foreign(origin, kind):
                self.lose(where, foreign_why(origin, kind))
                return foreign_text(part.raw)
            case ServerCall() | ServerResult():
                return server_text(part)
            case _:
                self.lose(where, "this message cannot contain such a part")
                return ""

    def marked(self, part: JsonObject, cache: Cache) -> JsonObject:
        """Return `part` marked as the end of a cached prefix, if the provider has such marks."""
        if cache and self._quirks.cache_control:
            control: JsonObject = {"type": "ephemeral"}
            return part | {"cache_control": control | {"ttl": "1h"} if cache == "1h" else control}
        if not cache or not self._quirks.cache_breakpoints:
            return part
        # OpenAI, prompt caching: a breakpoint lives 30 minutes or 12 hours.
        mark: JsonObject = {"mode": "explicit", "ttl": "12h" if cache == "1h" else "30m"}
        return part | {"prompt_cache_breakpoint": mark}

    def is_marked(self, part: Part) -> bool:
        known = self._quirks.cache_breakpoints or self._quirks.cache_control
        return known and bool(getattr(part, "cache", ""))

    def _image(self, where: str, image: Image) -> JsonObject | str:
        model = self._target.model
        if not self._target.can("vision"):
            self.lose(where, f"{model} cannot see images")
            return f"[image omitted: {model} cannot see images]"
        url = image.url or f"data:{image.media_type};base64,{image.data}"
        if not image.url and not image.data:
            self.lose(where, "an image with a file id exists only in the API that stores the file")
            return f"[image {image.file_id} could not be shown to this model]"
        shown: JsonObject = {"url": url}  # OpenAI chat: an https or a data: URL
        if image.detail:
            shown["detail"] = image.detail
        return self.marked({"type": "image_url", "image_url": shown}, image.cache)

    def _document(self, where: str, document: Document) -> JsonObject | str:
        if document.cite:
            self.lose(f"{where}.cite", "this API cannot cite documents")
        if text := document_text(document):
            return text
        file: JsonObject = {"filename": document.title or _FILE_NAME}
        if document.data:
            file["file_data"] = f"data:{document.media_type};base64,{document.data}"
        elif document.file_id and self._origin in {ORIGIN, "openai_responses"}:
            # OpenAI, files: ids of uploaded files are valid in both of its APIs.
            file = {"file_id": document.file_id}
        else:
            self.lose(where, "this API takes documents as data; this one is only a reference")
            shown = document.title or document.url or document.file_id
            return f"[document {shown} could not be shown to this model]"
        if document.context:
            self.lose(f"{where}.context", "a file part has no context")
        return self.marked({"type": "file", "file": file}, document.cache)


class ContentBuilder:
    """The content of one message while its parts are added."""

    def __init__(self, encoder: PartEncoder, *, joint: str, shared: bool = False) -> None:
        """`shared` is True for content that every request of a session has."""
        self._encoder = encoder
        self._joint = joint
        self._shared = shared
        self._parts: list[Json] = []
        self._plain = True
        """True while there is only text without cache marks."""

    @property
    def empty(self) -> bool:
        return not self._parts

    def add(self, where: str, part: Part) -> None:
        if type(part) is Text and not (self._encoder.own or part.cache or part.citations):
            if part.text:  # as nearly every part
                self._parts.append({"type": "text", "text": part.text})
            return
        found = self._encoder.part(where, part)
        if not found:
            return
        if isinstance(found, str):
            found = {"type": "text", "text": found}
            if isinstance(part, Text):
                found = self._encoder.marked(found, part.cache)
                self._plain = self._plain and not self._encoder.is_marked(part)
        else:
            self._plain = False
        self._parts.append(found)

    def mark_error(self) -> None:
        """Begin the content with the words that mark the result of a failed call."""
        first = self._parts[0] if self._parts else None
        if isinstance(first, dict) and isinstance(text := first.get("text"), str):
            if not text.startswith(ERROR_MARK):
                self._parts[0] = first | {"text": ERROR_MARK + text}
        else:
            self._parts.insert(0, {"type": "text", "text": ERROR_MARK})

    @property
    def text(self) -> str:
        texts = [part.get("text") for part in self._parts if isinstance(part, dict)]
        found = [text for text in texts if isinstance(text, str)]
        return join_shared(self._joint, found) if self._shared else self._joint.join(found)

    @property
    def value(self) -> Json:
        return self.text if self._plain else simplified(self._parts)


def simplified(content: Json) -> Json:
    """Return a list with one unmarked text as a string: some providers accept no parts."""
    only = content[0] if isinstance(content, list) and len(content) == 1 else None
    if not isinstance(only, dict) or only.keys() != {"type", "text"} or only["type"] != "text":
        return content
    return only["text"]
