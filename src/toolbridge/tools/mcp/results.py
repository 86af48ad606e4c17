"""Tools and results of an MCP server in our types, bounded.

Descriptions are prompt text of strangers: they are cut, and invisible characters are removed.
"""

from toolbridge.core.json import Json, JsonObject, dump_bytes, dumps
from toolbridge.core.messages import Image, Text
from toolbridge.core.server_tools import McpOutput, McpTool
from toolbridge.server_tool_settings import McpServerSettings
from toolbridge.tools.text_limit import fit_tokens
from toolbridge.tools.web.plain_text import cut, visible

_DESCRIPTION = 1024
_LONGEST_NAME = 128
"""MCP, tools: the most characters of a name."""
_SCHEMA = 64 * 1024


def tool_of(listed: JsonObject) -> McpTool | None:
    """Return a tool as the server lists it; None for one without a usable name."""
    name, schema = listed.get("name"), listed.get("inputSchema")
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        return None
    hints = listed.get("annotations")
    description = listed.get("description")
    fits = isinstance(schema, dict) and len(dump_bytes(schema)) <= _SCHEMA
    return McpTool(
        name,
        cut(visible(description), _DESCRIPTION) if isinstance(description, str) else "",
        schema if isinstance(schema, dict) and fits else {"type": "object"},
        read_only=isinstance(hints, dict) and hints.get("readOnlyHint") is True,
    )


def output_of(result: JsonObject, limits: McpServerSettings) -> McpOutput:
    """Return the content of a result: texts cut with a note, images within a bound."""
    content = result.get("content")
    items = content if isinstance(content, list) else []
    writer = _Output(limits)
    for item in items:
        if isinstance(item, dict):
            writer.add(item)
    structured = result.get("structuredContent")
    if structured is not None and not any(isinstance(part, Text) for part in writer.parts):
        writer.add_text(dumps(structured))
    return McpOutput(tuple(writer.parts), is_error=result.get("isError") is True)


class _Output:
    def __init__(self, limits: McpServerSettings) -> None:
        self.parts: list[Text | Image] = []
        self._tokens = limits.max_tokens
        self._image_bytes = limits.max_image_bytes

    def add(self, item: JsonObject) -> None:
        match item:
            case {"type": "text", "text": str(text)}:
                self.add_text(text)
            case {"type": "image", "data": str(data), "mimeType": str(kind)}:
                self._add_image(data, kind)
            case {"type": "audio", "data": str(data), "mimeType": str(kind)}:
                self.add_text(f"[{kind}, {_size(data)} bytes, left out: audio is not supported]")
            case {"type": "resource_link", "uri": str(uri)}:
                self.add_text(f"[{_title(item)}]({uri})")
            case {"type": "resource", "resource": dict(resource)}:
                self._add_resource(resource)
            case _:
                self.add_text(f"[content of the type {str(item.get('type'))[:40]!r}, left out]")

    def add_text(self, text: str) -> None:
        if self._tokens <= 0:
            return
        kept, was_cut = fit_tokens(text, self._tokens)
        self._tokens -= max(1, len(kept) // 4)
        if was_cut:
            self._tokens = 0
            kept += f"\n[cut: {len(text) - len(kept)} more characters]"
        self.parts.append(Text(kept))

    def _add_image(self, data: str, kind: str) -> None:
        size = _size(data)
        if not kind.startswith("image/"):
            self.add_text(f"[{kind[:80]}, {size} bytes, left out]")
        elif size > self._image_bytes:
            self.add_text(f"[{kind[:80]}, {size} bytes, left out: it is too large]")
        else:
            self._image_bytes -= size
            self.parts.append(Image(data=data, media_type=kind))

    def _add_resource(self, resource: JsonObject) -> None:
        uri, kind = str(resource.get("uri", "")), str(resource.get("mimeType", ""))
        text, blob = resource.get("text"), resource.get("blob")
        if isinstance(text, str):
            self.add_text(f"{uri}:\n{text}" if uri else text)
        elif isinstance(blob, str):
            self._add_image(blob, kind or "unknown content")


def _title(item: JsonObject) -> str:
    found: Json = item.get("title") or item.get("name") or item.get("uri")
    return str(found)[:200]


def _size(base64: str) -> int:
    return len(base64) * 3 // 4
