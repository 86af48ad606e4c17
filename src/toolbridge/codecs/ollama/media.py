"""Images and sounds of Ollama's API, which are base64 without a media type.

Ollama, docs/api: `images` holds raw base64, without `data:` in front. Other APIs need a media type,
so it is derived from the first bytes.
"""

from base64 import b64decode
from binascii import Error

from toolbridge.core.data_url import split_data_url
from toolbridge.core.messages import Audio, Image

_BEGINNINGS = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def decode_media(encoded: str) -> Image | Audio:
    """Return an entry of `images`, which may be a sound for models with the capability `audio`."""
    # Ollama, docs/api: no `data:` in front; some clients send it all the same.
    media_type, data = split_data_url(encoded)
    data = data or encoded
    media_type = media_type or _sniff(data)
    if media_type.startswith("audio/"):
        return Audio(data, media_type)
    return Image(data, media_type)


def _sniff(data: str) -> str:
    """Return the media type that the first twelve bytes show, or ""."""
    try:
        head = b64decode(data[:16])
    except (Error, ValueError):
        return ""
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12], "")
    return next((kind for start, kind in _BEGINNINGS if head.startswith(start)), "")
