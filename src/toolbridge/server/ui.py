"""The page: static files from a fixed list, so that a path cannot reach other files.

The files need no key: they contain no secret, and a page must load before it can ask for a key. All
data on the page comes from the API, which requires the key.
"""

from functools import cache
from pathlib import Path

from toolbridge.server.app import App
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry

PAGE = "/ui"
_FOLDER = Path(__file__).parents[1] / "ui"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_MODULES = (
    "bar_chart", "chart", "client", "details", "dom", "export", "feed", "form", "format",
    "json_lines", "live_run", "main", "models_view", "panes", "past", "providers_view", "replay",
    "request_list", "request_state", "request_timeline", "request_view", "requests_view", "router",
    "rows", "runs_view", "shortcuts", "side_by_side", "sse", "story", "text_diff", "theme",
    "tool_form", "usage_view",
)  # fmt: skip
_STYLES = ("base", "overview", "request", "requests", "runs", "shell")
FILES = {
    PAGE: "index.html",
    **{
        f"{PAGE}/{name}": name
        for name in (
            "icon.svg",
            *(f"{module}.js" for module in _MODULES),
            *(f"{style}.css" for style in _STYLES),
        )
    },
}
"""Path → file."""
_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
)
_HEADERS = {
    "content-security-policy": "; ".join(_POLICY),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    # After an upgrade the page and its modules must have the same version.
    "cache-control": "no-cache",
}


async def page(_: App, exchange: HttpExchange, entry: Entry) -> None:
    """`GET /ui` and the files of the page."""
    entry.note(surface="ui")
    name = FILES[exchange.path]
    kind = {"content-type": _KINDS[Path(name).suffix]}
    await exchange.reply(200, _read(name), {**_HEADERS, **kind})


@cache
def _read(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()
