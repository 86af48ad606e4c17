"""A server that answers like every search engine, with three fixed hits or with a fault."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

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
class Asked:
    method: str
    path: str
    query: dict
    headers: dict
    body: dict | None


@dataclass
class SearchDouble:
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    faults: list = field(default_factory=list)
    """The faults of the next requests; a request without one is answered."""
    answer: object = None
    """Replaces the fixed answer."""
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client left while the server was silent."""

    async def serve(self, reader, writer):
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, target, _ = first.split(" ", 2)
            parts = urlsplit(target)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self.asked.append(
                Asked(method, parts.path, query, headers, json.loads(body) if body else None)
            )
            fault = self.faults.pop(0) if self.faults else ""
            await self._answer(parts.path, fault, reader, writer)
        writer.close()

    async def _answer(self, path, fault, reader, writer):
        status, kind, extra = 200, "application/json", ""
        body = json.dumps(self.answer or ANSWERS.get(path, {})).encode()
        match fault:
            case int():
                status, body = fault, b'{"error": "no"}'
            case "hang":
                self.silent.set()
                await reader.read()
                self.gone.set()
                return
            case "broken":
                body = b'{"results": [{"url": '
            case "html":
                kind, body = "text/html", b"<html>not json</html>"
            case "large":
                body = b'{"results": [' + b" " * (5 << 20) + b"]}"
            case "redirect":
                status, extra = 302, f"location: {self.url}/elsewhere\r\n"
            case "cut":
                writer.write(b"HTTP/1.1 200 X\r\ncontent-length: 999\r\n\r\n{")
                return
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{extra}content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()


@asynccontextmanager
async def search_double():
    double = SearchDouble()
    server = await asyncio.start_server(double.serve, "127.0.0.1", 0)
    double.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield double
    finally:
        server.close()
