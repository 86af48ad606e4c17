"""The login at an MCP server in the user's browser: OAuth 2.1 with PKCE.

The authorization server redirects the browser to a port on loopback, where this process waits for
the code (RFC 8252). The client is registered by itself (RFC 7591), unless the settings have one.
"""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from html import escape
from typing import Self
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp

from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.server_tool_settings import McpServerSettings
from toolbridge.tools.mcp.login import Login
from toolbridge.tools.mcp.oauth import OauthFailure, ask, token_request, with_tokens
from toolbridge.tools.mcp.oauth_discovery import AuthorizationServer, discover

SECONDS = 300.0
"""Seconds for the user to log in."""
_PATH = "/callback"
_HEAD = 16 * 1024


async def log_in(
    settings: McpServerSettings,
    challenge: str,
    session: aiohttp.ClientSession,
    show: Callable[[str], None],
) -> Login:
    """Return a new login; raise `OauthFailure`. `show` gets the address for the browser."""
    server = await discover(settings.url, challenge, session)
    async with _Callback() as callback:
        client_id, client_secret = await _client(settings, server, callback.url, session)
        verifier = secrets.token_urlsafe(64)
        state = secrets.token_urlsafe(24)
        scope = settings.scope or " ".join(server.scopes)
        show(_address(server, client_id, callback.url, (verifier, state, scope)))
        code = await callback.code(state, server)
    login = Login(
        settings.url, server.token, client_id, "", client_secret, scope=scope, resource=server.resource
    )  # fmt: skip
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": callback.url,
        "code_verifier": verifier,
    }
    return with_tokens(login, await token_request(login, form, session))


async def _client(
    settings: McpServerSettings,
    server: AuthorizationServer,
    redirect: str,
    session: aiohttp.ClientSession,
) -> tuple[str, str]:
    """Return id and secret of the client: those of the settings, or of a new registration."""
    if settings.client_id:
        return settings.client_id, settings.client_secret
    if not server.register:
        text = "does not register clients; register one there, and set `client_id`"
        raise OauthFailure(f"{server.issuer} {text}")
    body: JsonObject = {
        "client_name": "toolbridge",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    status, found = await ask(session, "POST", server.register, body=dump_bytes(body))
    client_id, secret = found.get("client_id"), found.get("client_secret")
    if status not in {200, 201} or not isinstance(client_id, str):
        reason = found.get("error_description") or found.get("error") or f"status {status}"
        raise OauthFailure(f"{server.issuer} refused the registration: {str(reason)[:200]}")
    return client_id, secret if isinstance(secret, str) else ""


def _address(
    server: AuthorizationServer, client_id: str, redirect: str, given: tuple[str, str, str]
) -> str:
    verifier, state, scope = given
    digest = hashlib.sha256(verifier.encode()).digest()
    fields = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect,
        "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        "resource": server.resource,
    }
    if scope:
        fields["scope"] = scope
    mark = "&" if urlsplit(server.authorize).query else "?"
    return f"{server.authorize}{mark}{urlencode(fields)}"


class _Callback:
    """Waits on loopback for the redirect of the authorization server."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._answers: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}{_PATH}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    async def code(self, state: str, server: AuthorizationServer) -> str:
        """Return the code of the redirect that belongs to this login; others are left out."""
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    found = await self._answers.get()
                    # A page could open the address with a code of its own; it does not know `state`.
                    if secrets.compare_digest(found.get("state", "").encode(), state.encode()):
                        break
        except TimeoutError:
            raise OauthFailure(f"nobody logged in within {SECONDS:g} s") from None
        issuer = found.get("iss", "" if server.checks_issuer else server.issuer)
        if issuer.rstrip("/") != server.issuer.rstrip("/"):
            raise OauthFailure("the answer comes from another authorization server")
        if "code" not in found:
            reason = found.get("error_description") or found.get("error") or "no code"
            raise OauthFailure(f"the login was refused: {reason[:200]}")
        return found["code"]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError
        ):
            async with asyncio.timeout(10.0):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            target = head.split(" ", 2)[1] if head.count(" ") > 1 else ""
            parts = urlsplit(target)
            found = {name: values[0] for name, values in parse_qs(parts.query).items()}
            is_answer = parts.path == _PATH and "state" in found
            text = "You can close this page." if "code" in found else found.get("error", "")
            writer.write(_page(text) if is_answer else b"HTTP/1.1 404 Not Found\r\n\r\n")
            await writer.drain()
            if is_answer:
                self._answers.put_nowait(found)
        writer.close()


def _page(text: str) -> bytes:
    body = f"<!doctype html><title>toolbridge</title><p>{escape(text[:200])}</p>".encode()
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\nreferrer-policy: no-referrer"
    )
    return f"{head}\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def challenge_of(url: str, session: aiohttp.ClientSession) -> str | None:
    """Return the `WWW-Authenticate` with which a server asks for a login; None if it asks for none."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    try:
        async with session.post(
            url,
            json=hello,
            headers={"accept": "application/json, text/event-stream"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=15.0),
        ) as response:
            if response.status != 401:
                return None
            return response.headers.get("www-authenticate", "")
    except TimeoutError:
        raise OauthFailure(f"{url} did not answer") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise OauthFailure(f"{url} cannot be reached ({error})") from None
