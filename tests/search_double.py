"""A server that answers like every search engine, with three fixed hits or with a fault."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.scripted_http import serving

HITS = [
    ("https://example.org/a", "Zürich <b>über</b> &amp; alles", "The <strong>first</strong> hit &lt;ok&gt;"),
    ("https://sub.blocked.example/b", "Blocked", "second"),
    ("https://example.org/blog/c", "日本語", "third\u200b\U000e0041 hidden"),
]  # fmt: skip


def _items(link="url", snippet="content", **more):
    return [{link: url, "title": title, snippet: text, **more} for url, title, text in HITS]


ANSWERS = {
    "/search": {"results": _items(publishedDate="2026-01-02"), "answers": []},  # SearXNG
    "/brave/web/search": {"web": {"results": _items(snippet="description", age="2 days ago")}},
    "/tavily/search": {"results": _items(score=0.9), "answer": None},
    "/exa/search": {"results": _items(snippet="text", publishedDate="2026-01-02")},
    "/serper/search": {"organic": _items(link="link", snippet="snippet", date="1 Jan 2026")},
    "/jina/": {"data": _items(snippet="description")},
    "/ollama/web_search": {"results": _items()},
}


@dataclass
class RequestSize:
    method: str
    path: str
    query: dict
    headers: dict
    body: dict | None


@dataclass
class SearchDouble:
    url: str = ""
    asked: list[RequestSize] = field(default_factory=list)
    faults: list = field(default_factory=list)
    """The faults of the next requests; a request without one is answered."""
    answer: object = None
    """Replaces the fixed answer."""
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client left while the server was silent."""

    async def serve(self, got):
        body = json.loads(got.body) if got.body else None
        self.asked.append(RequestSize(got.method, got.path, got.query, got.headers, body))
        await self._answer(got, self.faults.pop(0) if self.faults else "")

    async def _answer(self, got, fault):
        status, kind, extra = 200, "application/json", {}
        body = json.dumps(self.answer or ANSWERS.get(got.path, {})).encode()
        match fault:
            case int():
                status, body = fault, b'{"error": "no"}'
            case "hang":
                self.silent.set()
                await got.reader.read()
                self.gone.set()
                return
            case "broken":
                body = b'{"results": [{"url": '
            case "html":
                kind, body = "text/html", b"<html>not json</html>"
            case "large":
                body = b'{"results": [' + b" " * (5 << 20) + b"]}"
            case "redirect":
                status, extra = 302, {"location": f"{self.url}/elsewhere"}
            case "cut":
                await got.send(b"HTTP/1.1 200 X\r\ncontent-length: 999\r\n\r\n{")
                return
        await got.answer(body, status, content_type=kind, **extra)


@asynccontextmanager
async def search_double():
    double = SearchDouble()
    async with serving(double.serve) as double.url:
        yield double
