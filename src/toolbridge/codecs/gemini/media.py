"""Images, documents and sounds of the Gemini API, in both directions.

Gemini API, Part: `inlineData` is base64 with a media type, `fileData` a URL or a file of the Files
API.
"""

from base64 import b64decode
from binascii import Error

from toolbridge.codecs.gemini.shapes import DETAILS, ORIGIN, Blob, FileData, MediaResolution
from toolbridge.core.data_url import split_data_url
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Audio, Document, Foreign, Image

_ENDINGS = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "webp": "image/webp", "heic": "image/heic", "heif": "image/heif", "pdf": "application/pdf",
    "txt": "text/plain", "md": "text/markdown", "csv": "text/csv", "html": "text/html",
}  # fmt: skip
_RESOLUTIONS = {ours: theirs for theirs, ours in DETAILS.items()}


def decode_blob(
    blob: Blob, resolution: MediaResolution | None, raw: JsonObject
) -> Image | Document | Audio | Foreign:
    """Return inline data by its media type; `Foreign` for a video or an unknown type."""
    kind, data = (blob.mime_type or "").lower(), blob.data or ""
    title = blob.display_name or ""
    if kind.startswith("image/"):
        return Image(data=data, media_type=kind, detail=_detail(resolution))
    if kind.startswith("audio/"):
        return Audio(data, kind)
    # Gemini API, document processing: PDF is read as pages; other documents as plain text.
    if kind == "application/pdf":
        return Document(data=data, media_type=kind, title=title)
    if kind.startswith("text/") and (text := _text(data)):
        return Document(text=text, media_type=kind, title=title)
    return Foreign(ORIGIN, "inlineData", raw)


def decode_file(
    file: FileData, resolution: MediaResolution | None, raw: JsonObject
) -> Image | Document | Foreign:
    url = file.file_uri or ""
    kind = (file.mime_type or guess_type(url)).lower()
    if url and kind.startswith("image/"):
        return Image(url=url, media_type=kind, detail=_detail(resolution))
    if url and (kind == "application/pdf" or kind.startswith("text/")):
        return Document(url=url, media_type=kind)
    return Foreign(ORIGIN, "fileData", raw)


def _detail(resolution: MediaResolution | None) -> str:
    return DETAILS.get(resolution.level or "", "") if resolution else ""


def _text(data: str) -> str:
    try:
        return b64decode(data, validate=True).decode()
    except (Error, ValueError):
        return ""


def encode_media(media: Image | Document) -> JsonObject | None:
    """Return a part with `media`; None for a file that only another API can read."""
    if media.data:
        return inline_part(media.data, media.media_type or "application/octet-stream")
    if media.url.startswith("data:"):
        media_type, data = split_data_url(media.url)
        return inline_part(data, media_type)
    if not media.url:
        return None
    # Gemini API, FileData: the media type is optional for a URL.
    file: JsonObject = {"fileUri": media.url}
    kind = media.media_type or guess_type(media.url)
    return {"fileData": {"mimeType": kind, **file} if kind else file}


def inline_part(data: str, media_type: str) -> JsonObject:
    return {"inlineData": {"mimeType": media_type, "data": data}}


def encode_detail(image: Image) -> JsonObject:
    """Return the field `mediaResolution`, to be merged into the part of an image."""
    level = _RESOLUTIONS.get(image.detail)
    return {"mediaResolution": {"level": level}} if level else {}


def guess_type(url: str) -> str:
    """Return the media type by the ending of a URL, or ""."""
    path = url.partition("?")[0].partition("#")[0]
    return _ENDINGS.get(path.rpartition(".")[2].lower(), "")
