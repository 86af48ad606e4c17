"""Our turns, as messages of the Converse API.

Amazon Bedrock, ContentBlock: images and documents are base64 in the body; URLs are not fetched. The
name of a document may contain letters, digits, single spaces, hyphens and brackets only.
"""

import re

from toolbridge.codecs.bedrock.quirks import Quirks
from toolbridge.codecs.bedrock.thinking import encode_thought
from toolbridge.codecs.bedrock.tools import cache_point
from toolbridge.core.codec import Lose, Target
from toolbridge.core.data_url import split_data_url
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Part,
    Reference,
    Result,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.parts_text import available_text, foreign_text
from toolbridge.core.server_tool_text import server_text
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.core.shared_fields import foreign_why

_IMAGES = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9\-()\[\]]+")


class TurnEncoder:
    """Writes the messages of one request and reports what a message cannot hold."""

    def __init__(self, target: Target, quirks: Quirks, lose: Lose) -> None:
        self._target = target
        self._quirks = quirks
        self._lose = lose
        self._documents = 0

    def encode(self, number: int, turn: Turn) -> list[JsonObject]:
        """Return the message of a turn, or nothing if no part of it is left."""
        results: list[Json] = []
        others: list[Json] = []
        for index, part in enumerate(turn.content):
            blocks = self._part(part, f"turns.{number}.content.{index}")
            (results if isinstance(part, Result) else others).extend(blocks)
        content = results + others
        return [{"role": turn.role, "content": content}] if content else []

    def _part(self, part: Part, where: str) -> list[Json]:
        block = self._block(part, where)
        if block is None:
            return []
        return [block, *cache_point(getattr(part, "cache", ""), self._quirks)]

    def _block(self, part: Part, where: str) -> JsonObject | None:
        match part:
            case Thinking():
                thought = encode_thought(part)
                if thought is None:
                    self._lose(where, "Bedrock accepts only thoughts with its own signature")
                return thought
            case Call():
                # Amazon Bedrock, ToolUseBlock: `input` is an object, invalid arguments a text in it.
                input: JsonObject = {"raw": part.raw} if part.raw else part.arguments
                return {"toolUse": {"toolUseId": part.id, "name": part.name, "input": input}}
            case Result():
                return self._result(part, where)
            case _:
                return self._content(part, where)

    def _result(self, result: Result, where: str) -> JsonObject:
        found = (
            self._content(part, f"{where}.content.{i}") for i, part in enumerate(result.content)
        )
        content: list[Json] = [block for block in found if block is not None]
        block: JsonObject = {"toolUseId": result.call_id, "content": content}
        if result.is_error:
            block["status"] = "error"
        return {"toolResult": block}

    def _content(self, part: Part, where: str) -> JsonObject | None:
        """Return a block that may stand in a message or inside a result."""
        match part:
            case Text():
                if part.citations:
                    self._lose(f"{where}.citations", "Converse takes no citations of past answers")
                return {"text": part.text}
            case Image():
                return self._image(part, where)
            case Document():
                return self._document(part, where)
            case Reference(name):
                return {"text": available_text(name, None)}
            case Foreign(origin, kind):
                self._lose(where, foreign_why(origin, kind))
                text = foreign_text(part.raw)
                return {"text": text} if text.strip() else None
            case ServerCall() | ServerResult():
                return {"text": server_text(part)}
            case Audio():
                self._lose(where, "no model behind Converse is known to take this audio")
                return {"text": "[audio omitted: this model cannot hear it]"}
            case _:
                return None

    def _image(self, image: Image, where: str) -> JsonObject:
        if not self._target.can("vision"):
            self._lose(where, f"{self._target.model} cannot see images")
            return {"text": f"[image omitted: {self._target.model} cannot see images]"}
        if image.detail:
            self._lose(f"{where}.detail", "Bedrock's images have no detail setting")
        kind, data = split_data_url(image.url)
        format = _IMAGES.get((image.media_type or kind).lower(), "")
        if format and (image.data or data):
            source: JsonObject = {"bytes": image.data or data}
            return {"image": {"format": format, "source": source}}
        self._lose(where, "Bedrock takes images as PNG, JPEG, GIF or WebP data, not by reference")
        return {"text": f"[image {image.url[:200] or image.file_id} could not be shown]"}

    def _document(self, document: Document, where: str) -> JsonObject:
        self._documents += 1
        title = _NOT_IN_NAMES.sub(" ", document.title).strip()
        block: JsonObject = {"name": f"{title or 'document'} {self._documents}"}
        format = _DOCUMENTS.get(document.media_type.lower(), "")
        if document.text:
            block |= {"format": format or "txt", "source": {"text": document.text}}
        elif document.data and format:
            block |= {"format": format, "source": {"bytes": document.data}}
        else:
            self._lose(where, "Bedrock takes documents as data of a known type, not by reference")
            return {"text": f"[document {document.title or document.url[:200]} could not be shown]"}
        if document.context:
            block["context"] = document.context
        if document.cite:
            block["citations"] = {"enabled": True}
        return {"document": block}
