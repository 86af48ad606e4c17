"""The text of parts that are not text, for APIs that can only be sent text.

Encoders of requests use these functions for documents, for references to tools, and for parts that
only another API understands. Every target then reads the same words.
"""

from base64 import b64decode
from binascii import Error

from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Document

_TEXT_FIELDS = frozenset({"title", "url", "text"})
_MAX_DEPTH = 6


def document_text(document: Document) -> str:
    """Return a document's title, context and text; "" for a document that is not plain text."""
    text = document.text or _decode_text(document)
    if not text:
        return ""
    title = f"[document: {document.title}]" if document.title else ""
    return "\n".join(line for line in (title, document.context, text) if line)


def _decode_text(document: Document) -> str:
    if not document.data or not document.media_type.startswith("text/"):
        return ""
    try:
        return b64decode(document.data).decode("utf-8", "replace")
    except (Error, ValueError):
        return ""


def available_text(name: str, schema: JsonObject | None = None) -> str:
    """Return the sentence that stands for a `Reference`: a tool search has found this tool."""
    sentence = f"Tool {name} is now available"
    return f"{sentence}." if schema is None else f"{sentence}: {dumps(schema)}"


def foreign_text(raw: Json) -> str:
    """Return the titles, links and passages in a part that only another API understands."""
    return "\n".join(_texts(raw, _MAX_DEPTH))


def _texts(value: Json, depth: int) -> list[str]:
    if isinstance(value, list) and depth:
        return [text for item in value for text in _texts(item, depth - 1)]
    if not isinstance(value, dict) or not depth:
        return []
    found: list[str] = []
    for key, item in value.items():
        if isinstance(item, str) and key in _TEXT_FIELDS:
            found.append(item)
        else:
            found += _texts(item, depth - 1)
    return found
