"""A scripted MCP server over streamable HTTP, with an authorization server if a test needs one."""

import asyncio
import base64
import hashlib
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from tests.scripted_http import serving

TOOLS = [
    {"name": "echo", "description": "Echo\u200b" + "x" * 5000, "inputSchema": {"type": "object"}},
    {"name": "hang", "inputSchema": {"type": "object"}},
]


@dataclass
class McpDouble:
    mode: str = "json"
    """`json`, `sse` or `batch`."""
    url: str = ""
    version: str = "2025-11-25"
    requests: list = field(default_factory=list)
    """(HTTP method, message or None, headers)"""
    session: int = 0
    forget: bool = False
    """Answers 404 to the next request of a session."""
    fault: str = ""
    move_to: str = ""
    token: str = ""
    """The access token that is required; empty for none."""
    tokens: list = field(default_factory=list)
    """The access tokens that the token endpoint gives, one after the other."""
    forms: list = field(default_factory=list)
    registered: dict = field(default_factory=dict)
    metadata: dict = field(default_factory=dict)
    """Overrides fields of the authorization server's metadata."""
    resource: dict = field(default_factory=dict)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    def methods(self):
        return [
            message["method"] for _, message, _ in self.requests if message and "method" in message
        ]

    async def serve(self, got):
        if got.path != "/mcp":
            await self.authorize(got)
            return
        message = json.loads(got.body) if got.body else None
        self.requests.append((got.method, message, got.headers))
        if self.token and got.headers.get("authorization") != f"Bearer {self.token}":
            where = f'Bearer resource_metadata="{self.url}/meta", scope="read"'
            await got.answer(b"{}", 401, www_authenticate=where)
        elif self.move_to:
            to, self.move_to = self.move_to, ""
            await got.answer(status=308, location=to)
        elif got.method == "DELETE":
            await got.answer(status=200)
        elif self.forget and "mcp-session-id" in got.headers:
            self.forget = False
            await got.answer(b'{"error":{"message":"unknown session"}}', 404)
        elif self.fault:
            await self.fail(got)
        else:
            await self.message(got, message)

    async def fail(self, got):
        match self.fault:
            case "large":
                await got.answer(b" " * (17 << 20), content_type="application/json")
            case "html":
                await got.answer("<html>", content_type="text/html")
            case "large event":
                await got.answer(b"data: " + b"x" * (17 << 20), content_type="text/event-stream")
            case "cut":
                await got.send(
                    b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
                )
            case "ended":
                await got.answer(b": nothing\n\n", content_type="text/event-stream")
            case status:
                await got.answer(b'{"error":{"code":-1,"message":"the reason"}}', int(status))

    async def message(self, got, message):
        method, number = message.get("method"), message.get("id")
        if number is None or method is None:
            if method == "notifications/cancelled":
                self.cancelled.set()
            await got.answer(status=202)
            return
        extra = {}
        match method:
            case "initialize" if self.version == "2026-07-28":
                await self.send(got, {"id": number, "error": {"code": -32022, "message": "no"}}, {})
                return
            case "initialize":
                self.session += 1
                extra = {"mcp_session_id": f"s{self.session}"}
                result = {"protocolVersion": self.version, "capabilities": {}, "serverInfo": {}}
            case "ping":
                result = {}
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call" if message["params"]["name"] == "hang":
                self.heard.set()
                await got.reader.read()
                return
            case _:
                result = {
                    "content": [
                        {"type": "text", "text": json.dumps(message["params"]["arguments"])}
                    ]
                }
        await self.send(got, {"id": number, "result": result}, extra)

    async def send(self, got, answer, extra):
        answer = {"jsonrpc": "2.0", **answer}
        if self.mode == "sse":
            others = [
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}},
                {"jsonrpc": "2.0", "id": "srv", "method": "ping"},
                {"jsonrpc": "2.0", "id": 999, "result": {"other": True}},
            ]
            body = b"id: 0\ndata:\n\n" + b"".join(
                f"event: message\r\ndata: {json.dumps(one)}\r\n\r\n".encode()
                for one in [*others, answer]
            )
            await got.answer(body, content_type="text/event-stream", **extra)
            return
        body = [answer] if self.mode == "batch" else answer
        await got.answer(json.dumps(body), content_type="application/json; charset=utf-8", **extra)

    # ── the authorization server ─────────────────────────────────────────────

    async def authorize(self, got):
        match got.path:
            case "/meta":
                meta = {"resource": f"{self.url}/mcp", "authorization_servers": [f"{self.url}/as"]}
                await got.answer(json.dumps(meta | self.resource))
            case "/.well-known/oauth-authorization-server/as":
                found = {
                    "issuer": f"{self.url}/as",
                    "authorization_endpoint": f"{self.url}/authorize",
                    "token_endpoint": f"{self.url}/token",
                    "registration_endpoint": f"{self.url}/register",
                    "code_challenge_methods_supported": ["S256"],
                }
                await got.answer(json.dumps(found | self.metadata))
            case "/register":
                self.registered = json.loads(got.body)
                await got.answer(json.dumps({"client_id": "c1"}), 201)
            case "/token":
                form = {name: values[0] for name, values in parse_qs(got.body.decode()).items()}
                self.forms.append(form)
                if not self.tokens or form.get("code") == "bad":
                    await got.answer(json.dumps({"error": "invalid_grant"}), 400)
                    return
                access = self.tokens.pop(0)
                found = {"access_token": access, "refresh_token": f"r-{access}", "expires_in": 3600}
                await got.answer(json.dumps(found))
            case _:
                await got.answer(b"{}", 404)


def challenge_of(verifier):
    return (
        base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    )


@asynccontextmanager
async def mcp_double(**options):
    double = McpDouble(**options)
    async with serving(double.serve) as double.url:
        yield double
