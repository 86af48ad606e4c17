"""Our parts as those of a message's content, and the content of one message.

Text is sent as one string: it is the form that every provider takes. Parts are sent only where a
message holds something else than text, or where the client sent parts.
"""

from base64 import b64decode
from binascii import Error

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.decode_turns import AUDIO_TYPES, FILE_NAME
from toolbridge.codecs.openai_chat.quirks import Quirks
from toolbridge.codecs.openai_chat.shapes import ERROR_MARK, ORIGIN
from toolbridge.core.codec import Target
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import (
    Audio,
    Cache,
    Document,
    Foreign,
    Image,
    Loss,
    Part,
    Reference,
    Request,
    Text,
)
from toolbridge.core.shared_fields import foreign_why
from toolbridge.core.source import own_words

_AUDIO_FORMATS = {media_type: format for format, media_type in AUDIO_TYPES.items()}


class PartEncoder:
    """Writes the parts of one request and keeps what could not be said."""

    def __init__(self, request: Request, target: Target, quirks: Quirks) -> None:
        self._tools = {tool.name: tool for tool in request.tools}
        self._own = request.origin == ORIGIN
        # OpenAI's two APIs share their files.
        self._files = request.origin in {ORIGIN, "openai_responses"}
        self._target = target
        self._quirks = quirks
        self.losses: list[Loss] = []

    def lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def _own_part(self, part: Part) -> JsonObject | None:
        """Return the client's own part, unless the model cannot see it."""
        if not self._own or (isinstance(part, Image) and not self._target.can("vision")):
            return None
        return own_words(part, ORIGIN)

    def part(self, where: str, part: Part) -> JsonObject | str:
        """Return a part; as a string where only its words are left."""
        said = self._own_part(part)
        if said is not None:
            return said
        match part:
            case Text(text):
                if part.citations:
                    self.lose(f"{where}.citations", "a request has no place for citations")
                return text
            case Image():
                return self._image(where, part)
            case Audio(data, media_type):
                format = _AUDIO_FORMATS.get(media_type, media_type.removeprefix("audio/"))
                return {"type": "input_audio", "input_audio": {"data": data, "format": format}}
            case Document():
                return self._document(where, part)
            case Reference(name):
                return self._reference(name)
            case Foreign(origin, _, raw) if origin == ORIGIN:
                return raw
            case Foreign(origin, kind):
                self.lose(where, foreign_why(origin, kind))
                return "\n".join(_texts(part.raw))
            case _:
                self.lose(where, "this part has no place in such a message")
                return ""

    def marked(self, part: JsonObject, cache: Cache) -> JsonObject:
        """Return `part` as the end of a prefix to cache, where the place knows such marks."""
        if cache and self._quirks.cache_control:
            control: JsonObject = {"type": "ephemeral"}
            return part | {"cache_control": control | {"ttl": "1h"} if cache == "1h" else control}
        if not cache or not self._quirks.cache_breakpoints:
            return part
        mark: JsonObject = {"mode": "explicit", "ttl": shapes.write_cache(cache)}
        return part | {"prompt_cache_breakpoint": mark}

    def marks(self, part: Part) -> bool:
        known = self._quirks.cache_breakpoints or self._quirks.cache_control
        return known and bool(getattr(part, "cache", ""))

    def _image(self, where: str, image: Image) -> JsonObject | str:
        model = self._target.model
        if not self._target.can("vision"):
            self.lose(where, f"{model} cannot see images")
            return f"[image omitted: {model} cannot see images]"
        url = image.url or f"data:{image.media_type};base64,{image.data}"
        if not image.url and not image.data:
            self.lose(where, "a file is known only to the API that keeps it")
            return f"[image {image.file_id} could not be shown to this model]"
        shown: JsonObject = {"url": url}
        if image.detail:
            shown["detail"] = image.detail
        return self.marked({"type": "image_url", "image_url": shown}, image.cache)

    def _document(self, where: str, document: Document) -> JsonObject | str:
        if document.cite:
            self.lose(f"{where}.cite", "this API cites no documents")
        if text := document.text or _text_data(document):
            title = f"[document: {document.title}]" if document.title else ""
            return "\n".join(line for line in (title, document.context, text) if line)
        file: JsonObject = {"filename": document.title or FILE_NAME}
        if document.data:
            file["file_data"] = f"data:{document.media_type};base64,{document.data}"
        elif document.file_id and self._files:
            file = {"file_id": document.file_id}
        else:
            self.lose(where, "a document is sent as data; this one is only referred to")
            shown = document.title or document.url or document.file_id
            return f"[document {shown} could not be shown to this model]"
        if document.context:
            self.lose(f"{where}.context", "a file has no context")
        return self.marked({"type": "file", "file": file}, document.cache)

    def _reference(self, name: str) -> str:
        said = f"Tool {name} is now available"
        tool = self._tools.get(name)
        return f"{said}: {dumps(tool.schema)}" if tool else f"{said}."


class ContentBuilder:
    """The content of one message, as it is gathered."""

    def __init__(self, encoder: PartEncoder, *, joint: str) -> None:
        self._encoder = encoder
        self._joint = joint
        self._parts: list[Json] = []
        self._plain = True
        """Whether there is nothing but text, with no mark on it."""

    @property
    def empty(self) -> bool:
        return not self._parts

    def add(self, where: str, part: Part) -> None:
        found = self._encoder.part(where, part)
        if not found:
            return
        if isinstance(found, str):
            found = {"type": "text", "text": found}
            if isinstance(part, Text):
                found = self._encoder.marked(found, part.cache)
                self._plain = self._plain and not self._encoder.marks(part)
        else:
            self._plain = False
        self._parts.append(found)

    def mark_error(self) -> None:
        first = self._parts[0] if self._parts else None
        if isinstance(first, dict) and isinstance(text := first.get("text"), str):
            if not text.startswith(ERROR_MARK):
                self._parts[0] = first | {"text": ERROR_MARK + text}
        else:
            self._parts.insert(0, {"type": "text", "text": ERROR_MARK})

    @property
    def text(self) -> str:
        texts = (part.get("text") for part in self._parts if isinstance(part, dict))
        return self._joint.join(text for text in texts if isinstance(text, str))

    @property
    def value(self) -> Json:
        return self.text if self._plain else simple(self._parts)


def simple(content: Json) -> Json:
    """Return one text without a mark as a string: not every provider takes parts."""
    only = content[0] if isinstance(content, list) and len(content) == 1 else None
    if not isinstance(only, dict) or only.keys() != {"type", "text"} or only["type"] != "text":
        return content
    return only["text"]


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
