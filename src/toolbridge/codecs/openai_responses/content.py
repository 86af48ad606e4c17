"""Content parts of messages and tool outputs, in both directions.

OpenAI Responses, input items: users and tools send `input_text`, `input_image`, `input_file` and
`input_audio`; the assistant's parts are `output_text` and `refusal`, and every other type is
rejected there.
"""

import msgspec

from toolbridge.codecs.openai_responses import shapes
from toolbridge.codecs.openai_responses.item_fields import decode_cache, encode_cache
from toolbridge.codecs.openai_responses.quirks import Quirks
from toolbridge.codecs.openai_responses.shapes import (
    ANNOTATIONS,
    AUDIO_TYPES,
    CONTENT,
    ORIGIN,
    PARTS,
)
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
    Request,
    ResultPart,
    Role,
    Text,
)
from toolbridge.core.parts_text import available_text
from toolbridge.core.server_tool_text import server_text
from toolbridge.core.server_tools import ServerCall, ServerPart, ServerResult
from toolbridge.core.shared_fields import foreign_why
from toolbridge.core.source import own_words, sourced
from toolbridge.wire import shapes as wire

# ── theirs to ours ───────────────────────────────────────────────────────────


def decode_content(
    content: str | list[msgspec.Raw] | None, where: str, name: str = "content"
) -> list[Part]:
    """Return the parts in the field `name` of the item at `where`."""
    if isinstance(content, str):
        source = Origin(ORIGIN, f"{where}.{name}")
        return [Text(content, source=source)] if content else []
    parts = enumerate(content or ())
    return [_decode_part(raw, f"{where}.{name}.{i}") for i, raw in parts]


def _decode_part(raw: msgspec.Raw, where: str) -> ResultPart:
    part, unknown = PARTS.decode_named(raw, where)
    if isinstance(part, wire.Unknown):
        if not part.type:
            raise MalformedRequest("field required", where=f"{where}.type")
        return Foreign(ORIGIN, CONTENT + part.type, part.raw, Origin(ORIGIN, where))
    return sourced(_decode_known(part, where), Origin(ORIGIN, where, raw, unknown))


def _decode_known(part: shapes.AnyPart, where: str) -> ResultPart:
    match part:
        case shapes.TextPart(text, annotations, cache):
            return Text(text, citations=tuple(annotations or ()), cache=decode_cache(cache))
        case shapes.RefusalPart(text):
            return Text(text)
        case shapes.ImagePart():
            return _decode_image(part, where)
        case shapes.FilePart():
            return _decode_file(part, where)
        case shapes.AudioPart(audio):
            return Audio(audio.data, AUDIO_TYPES.get(audio.format, f"audio/{audio.format}"))


def _decode_image(part: shapes.ImagePart, where: str) -> Image:
    given = part.image_url
    url = given.url if isinstance(given, shapes.ImageUrl) else given or ""
    if not url and not part.file_id:
        raise MalformedRequest("one of image_url and file_id is required", where=where)
    media_type, data = split_data_url(url)
    return Image(
        data=data,
        media_type=media_type,
        url="" if data else url,
        file_id=part.file_id or "",
        detail="" if part.detail == "auto" else part.detail or "",
        cache=decode_cache(part.prompt_cache_breakpoint),
    )


def _decode_file(part: shapes.FilePart, where: str) -> Document:
    if not (part.file_data or part.file_url or part.file_id):
        text = "one of file_data, file_url and file_id is required"
        raise MalformedRequest(text, where=where)
    media_type, data = split_data_url(part.file_data or "")
    return Document(
        data=data or part.file_data or "",
        media_type=media_type,
        url=part.file_url or "",
        file_id=part.file_id or "",
        title="" if part.filename == shapes.FILENAME else part.filename or "",
        cache=decode_cache(part.prompt_cache_breakpoint),
    )


# ── ours to theirs ───────────────────────────────────────────────────────────


class ContentEncoder:
    """Writes the content parts of one request and collects the losses."""

    def __init__(self, request: Request, target: Target, quirks: Quirks) -> None:
        self._target = target
        self.marks = quirks.cache_breakpoints or request.origin == ORIGIN
        """True if cache breakpoints are written."""
        self.losses: list[Loss] = []

    def lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def part(self, part: Part, where: str, role: Role) -> JsonObject | None:
        """Return a part of a message; None if it cannot be written."""
        if isinstance(part, ServerCall | ServerResult):
            return self._server_part(part, role)
        written = own_words(part, ORIGIN)
        if written is not None and (not isinstance(part, Image) or self._target.can("vision")):
            return written
        if role == "assistant":
            return self._assistant_part(part, where)
        return self._user_part(part, where)

    def _user_part(self, part: Part, where: str) -> JsonObject | None:
        match part:
            case Text(text):
                return self.input_text(text, part.cache)
            case Image():
                return self._image(part, where)
            case Document():
                return self._document(part, where)
            case Audio():
                return self._audio(part, where)
            case Reference(name):
                return self.input_text(available_text(name), "")
            case Foreign(origin, kind, raw) if origin == ORIGIN:
                return raw
            case Foreign(origin, kind):
                self.lose(where, foreign_why(origin, kind))
                return None
            case _:
                return None

    def _server_part(self, part: ServerPart, role: Role) -> JsonObject:
        said = server_text(part)
        if role == "assistant":
            return {"type": "output_text", "text": said, "annotations": []}
        return self.input_text(said, "")

    def _assistant_part(self, part: Part, where: str) -> JsonObject | None:
        if isinstance(part, Foreign) and part.origin == ORIGIN:
            return part.raw
        if not isinstance(part, Text):
            self.lose(where, "an assistant message of this API contains only text")
            return None
        citations: list[Json] = [one for one in part.citations if one.get("type") in ANNOTATIONS]
        if len(citations) < len(part.citations):
            self.lose(f"{where}.citations", "this API cannot have the citations of another API")
        return {"type": "output_text", "text": part.text, "annotations": citations}

    def input_text(self, text: str, cache: Cache) -> JsonObject:
        return {"type": "input_text", "text": text, **self._mark(cache)}

    def _mark(self, cache: Cache) -> JsonObject:
        # A missing mark is no loss: OpenAI caches prefixes automatically.
        return encode_cache(cache) if self.marks else {}

    def _image(self, image: Image, where: str) -> JsonObject:
        if not self._target.can("vision"):
            self.lose(where, f"{self._target.model} cannot see images")
            return self.input_text(f"[image omitted: {self._target.model} cannot see images]", "")
        # OpenAI Responses: `detail` is required in an `input_image`.
        part: JsonObject = {"type": "input_image", "detail": image.detail or "auto"}
        if image.file_id:
            part["file_id"] = image.file_id
        else:
            part["image_url"] = image.url or f"data:{image.media_type};base64,{image.data}"
        return part | self._mark(image.cache)

    def _document(self, document: Document, where: str) -> JsonObject:
        if document.cite:
            self.lose(f"{where}.cite", "this API cannot cite documents of the input")
        if document.text:
            title = f"[document: {document.title}]" if document.title else ""
            lines = (line for line in (title, document.context, document.text) if line)
            return self.input_text("\n".join(lines), document.cache)
        if document.context:
            self.lose(f"{where}.context", "an `input_file` has no context")
        part: JsonObject = {"type": "input_file"}
        if document.file_id:
            part["file_id"] = document.file_id
        elif document.url:
            part["file_url"] = document.url
        else:
            part["file_data"] = f"data:{document.media_type};base64,{document.data}"
            part["filename"] = shapes.FILENAME
        if document.title:
            part["filename"] = document.title
        return part | self._mark(document.cache)

    def _audio(self, audio: Audio, where: str) -> JsonObject | None:
        format = shapes.AUDIO_FORMATS.get(audio.media_type)
        if format is None:
            self.lose(where, f"OpenAI accepts mp3 and wav audio, not {audio.media_type!r}")
            return None
        return {"type": "input_audio", "input_audio": {"data": audio.data, "format": format}}
