"""Estimate the tokens of images, documents and audio by their size."""

from base64 import b64decode
from binascii import Error

from toolbridge.core.messages import Audio, Document, Image

MOST_PER_IMAGE = 1600
_PIXELS_PER_TOKEN = 750
_PNG = b"\x89PNG\r\n\x1a\n"
_HEAD = 32  # base64 characters of the first 24 bytes of a PNG, which end with its size


def image_tokens(image: Image) -> int:
    """Return the tokens of an image: by its pixels if it is a PNG, else `MOST_PER_IMAGE`.

    Anthropic, Vision: tokens = width * height / 750, and at most about 1600 per image.
    """
    size = _png_size(image.data[:_HEAD])
    if size is None:
        return MOST_PER_IMAGE
    width, height = size
    return min(MOST_PER_IMAGE, max(1, width * height // _PIXELS_PER_TOKEN))


def document_tokens(document: Document, characters: float) -> float:
    """Return the tokens of a document's data, by its bytes; the pages of a PDF are not counted."""
    size = len(document.data) * 3 // 4
    if document.media_type.startswith("text/"):
        return size / characters
    if document.url or document.file_id:
        return 1500
    return 1500 + size / 25 if size else 0


def audio_tokens(audio: Audio) -> float:
    """Return the tokens of audio at 32 kB per second: 32 per second (Gemini, "Audio understanding")."""
    return len(audio.data) * 3 / 4 / 1000


def _png_size(head: str) -> tuple[int, int] | None:
    try:
        start = b64decode(head)
    except (Error, ValueError):
        return None
    if len(start) < 24 or not start.startswith(_PNG):
        return None
    return int.from_bytes(start[16:20], "big"), int.from_bytes(start[20:24], "big")
