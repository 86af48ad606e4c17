"""Reads a page of the web as text, for a model.

The address comes from a model, so every address is checked when the connection is made: scheme,
port, host, and each address that the host resolves to (`upstream.addresses`). Redirects are followed
here, and every one is checked in the same way. No cookie, key or proxy of the gateway is used.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from toolbridge.core.server_tools import FetchedPage, ServerToolError
from toolbridge.server_tool_settings import WebFetchSettings
from toolbridge.tools.text_limit import fit_tokens
from toolbridge.tools.threads import Threads
from toolbridge.tools.web.allowed_hosts import AllowedHosts
from toolbridge.tools.web.bodies import BrokenCompression, UnknownCompression, read_body
from toolbridge.tools.web.domains import is_allowed
from toolbridge.tools.web.pdf import NoPdfReader, PdfUnreadable, read_pdf
from toolbridge.tools.web.read_page import PageUnreadable, ReadPage, read_page
from toolbridge.upstream.address_guard import AddressGuard
from toolbridge.upstream.addresses import PrivateAddress, is_private_host, literal_address
from toolbridge.upstream.session import open_session

LONGEST_URL = 2048
_READERS = 2
"""The most pages that are converted at a time; the conversion needs a processor."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ACCEPT = "text/markdown, text/html;q=0.9, application/json;q=0.8, text/plain;q=0.8, */*;q=0.1"


class _Failed(Exception):
    """Carries the error of a fetch to its caller."""

    def __init__(self, error: ServerToolError) -> None:
        super().__init__(error.text)
        self.error = error


class PageFetcher:
    """Fetches pages; it holds the connections, so close it at the end."""

    def __init__(
        self, settings: WebFetchSettings, *, resolver: AbstractResolver | None = None
    ) -> None:
        """`resolver` resolves the names; unset for that of the system."""
        self._settings = settings
        self._hosts = AllowedHosts(settings.allow_hosts)
        proxy = frozenset({URL(settings.proxy).host or ""}) if settings.proxy else frozenset()
        self._guard = AddressGuard(local=proxy, also=self._hosts.covers, own=False, inner=resolver)
        self._session: aiohttp.ClientSession | None = None
        self._threads = Threads(_READERS)
        self._pdfs = asyncio.Semaphore(_READERS)

    async def fetch(
        self,
        url: str,
        *,
        allow: Sequence[str] = (),
        block: Sequence[str] = (),
        limit_tokens: int = 0,
    ) -> FetchedPage | ServerToolError:
        """Return the page at `url` as text, or the reason why it cannot be read.

        `allow` and `block` are domains of the request, beside those of the settings.
        """
        seconds = self._settings.timeout
        try:
            async with asyncio.timeout(seconds):
                return await self._page(url, (allow, block), limit_tokens)
        except _Failed as failure:
            return failure.error
        except TimeoutError:
            return ServerToolError("url_not_accessible", f"no answer within {seconds:g} s")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        await self._guard.close()

    # ── requests ─────────────────────────────────────────────────────────────

    async def _page(
        self, url: str, domains: tuple[Sequence[str], Sequence[str]], limit_tokens: int
    ) -> FetchedPage:
        target = self._checked(url, domains)
        for _ in range(self._settings.redirects + 1):
            async with await self._get(target) as response:
                if response.status not in _REDIRECTS:
                    return await self._read(target, response, limit_tokens)
                target = self._redirected(target, response, domains)
        text = f"more than {self._settings.redirects} redirects"
        raise _Failed(ServerToolError("url_not_accessible", text))

    async def _get(self, target: URL) -> aiohttp.ClientResponse:
        settings = self._settings
        if self._session is None:
            self._session = open_session(resolver=self._guard, proxy=settings.proxy or None)
        try:
            return await self._session.get(
                target,
                headers={"accept": _ACCEPT},
                allow_redirects=False,
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout),
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _Failed(_unreachable(target, error)) from None

    def _redirected(
        self,
        target: URL,
        response: aiohttp.ClientResponse,
        domains: tuple[Sequence[str], Sequence[str]],
    ) -> URL:
        location = response.headers.get("location", "")
        if not location:
            raise _Failed(ServerToolError("url_not_accessible", "a redirect without an address"))
        try:
            to = target.join(URL(location))
        except ValueError:
            raise _Failed(_refused("the redirect has an invalid address")) from None
        if target.scheme == "https" and to.scheme == "http":
            raise _Failed(_refused(f"the redirect to {to.host} leaves https"))
        return self._checked(str(to), domains)

    # ── checks ───────────────────────────────────────────────────────────────

    def _checked(self, url: str, domains: tuple[Sequence[str], Sequence[str]]) -> URL:
        """Return the address in the form that is connected to; raise if it is not allowed."""
        if len(url) > LONGEST_URL:
            text = f"an address may have {LONGEST_URL} characters"
            raise _Failed(ServerToolError("url_too_long", text))
        try:
            target = URL(url.strip()).with_fragment(None)
            host, port = target.host or "", target.port
        except ValueError:
            raise _Failed(ServerToolError("invalid_tool_input", "not a valid address")) from None
        if target.scheme not in {"http", "https"} or not host:
            text = "the address must begin with http:// or https:// and have a host"
            raise _Failed(ServerToolError("invalid_tool_input", text))
        if target.user is not None or target.password is not None:
            raise _Failed(_refused("an address with a user name or password"))
        self._check_host(host, port or 0)
        settings = self._settings
        allow, block = domains
        own = is_allowed(str(target), settings.allow, settings.block)
        if not own or not is_allowed(str(target), allow, block):
            raise _Failed(_refused(f"{host} is not in the allowed domains"))
        return target

    def _check_host(self, host: str, port: int) -> None:
        """Raise unless the host, as it is written, and the port are allowed."""
        if self._hosts.covers(host, port, exactly=True):
            return
        if port not in self._settings.ports:
            raise _Failed(_refused(f"port {port} is not in `server_tools.web_fetch.ports`"))
        address = literal_address(host)
        private = not self._guard.permits(address) if address else is_private_host(host)
        if private and not self._hosts.covers(host, port):
            raise _Failed(_private(host))

    # ── content ──────────────────────────────────────────────────────────────

    async def _read(
        self, target: URL, response: aiohttp.ClientResponse, limit_tokens: int
    ) -> FetchedPage:
        settings = self._settings
        if response.status != 200:
            text = f"{target.host} answered with status {response.status}"
            raise _Failed(ServerToolError("url_not_accessible", text))
        kind = response.headers.get("content-type", "")
        try:
            body, more = await read_body(response, settings.max_bytes)
        except (UnknownCompression, BrokenCompression) as error:
            text = f"the compression cannot be read ({str(error)[:80]})"
            raise _Failed(ServerToolError("unsupported_content_type", text)) from None
        except (aiohttp.ClientError, OSError) as error:
            raise _Failed(_unreachable(target, error)) from None
        found = await self._converted(body, kind, str(target), complete=not more)
        most = min(limit_tokens or settings.max_tokens, settings.max_tokens)
        text, was_cut = fit_tokens(found.text, most)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return FetchedPage(
            str(target), found.title, text, fetched_at=now, truncated=more or was_cut
        )

    async def _converted(self, body: bytes, kind: str, url: str, *, complete: bool) -> ReadPage:
        try:
            if kind.startswith("application/pdf") or body.startswith(b"%PDF-"):
                if not complete:
                    text = f"the PDF has more than {self._settings.max_bytes} bytes"
                    raise _Failed(ServerToolError("content_too_large", text))
                async with self._pdfs:
                    return await read_pdf(body)
            reader = self._settings.reader
            return await self._threads.run(lambda: read_page(body, kind, url, reader))
        except NoPdfReader:
            text = "PDF needs a reader; run `pip install '.[reader]'` in the clone"
            raise _Failed(ServerToolError("unsupported_content_type", text)) from None
        except (PageUnreadable, PdfUnreadable) as error:
            text = f"there is no text in {str(error)[:80]}"
            raise _Failed(ServerToolError("unsupported_content_type", text)) from None


def _refused(text: str) -> ServerToolError:
    return ServerToolError("url_not_allowed", text)


def _private(host: str) -> ServerToolError:
    return _refused(
        f"{host} is in a private network; `server_tools.web_fetch.allow_hosts` can allow it"
    )


def _unreachable(target: URL, error: BaseException) -> ServerToolError:
    host = target.host or ""
    if isinstance(error, aiohttp.ClientConnectorError):
        cause: BaseException | None = error.os_error
        while cause is not None:
            if isinstance(cause, PrivateAddress):
                return _private(host)
            cause = cause.__cause__ or cause.__context__
        return ServerToolError("url_not_accessible", f"{host} cannot be connected to")
    return ServerToolError("url_not_accessible", f"{host} did not answer ({type(error).__name__})")
