"""JSON-RPC 2.0 over HTTP to a chain's server.

Errors distinguish a server that cannot be reached (`Unreachable`, `TimedOut`), one that returns
something else than JSON-RPC (`BrokenWire`), and an error response (`RpcRejected`). Only the last
proves that the server did not accept a transaction.
"""

from itertools import count
from types import TracebackType
from typing import Self

import aiohttp

from toolbridge.core.errors import BrokenWire, RateLimited, Rejected, TimedOut, Unreachable
from toolbridge.core.json import Json, JsonObject, dump_bytes, maybe_object
from toolbridge.core.printable import printable
from toolbridge.upstream.session import open_session

_MAX_ANSWER = 16 * 2**20
_JSON = {"content-type": "application/json"}


class RpcRejected(Rejected):
    """The server returned a JSON-RPC error."""

    def __init__(self, method: str, code: int, message: str, data: str = "") -> None:
        message = printable(message)
        super().__init__(
            f"the JSON-RPC server rejected {method}: {message[:300] or 'no reason given'} ({code})"
        )
        self.code = code
        self.message = message
        self.data = data
        """The revert data of a contract, in hex."""


class Rpc:
    """A client of one JSON-RPC server; use it as a context manager."""

    def __init__(self, url: str, wait: float = 15.0) -> None:
        self._url = url
        self._wait = wait
        self._ids = count(1)
        self._session: aiohttp.ClientSession | None = None

    @property
    def origin(self) -> str:
        """Scheme and host of the URL, for messages; the path often contains an API key."""
        scheme, _, rest = self._url.partition("://")
        return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"

    async def __aenter__(self) -> Self:
        self._session = open_session(wait=self._wait)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, method: str, *params: Json) -> Json:
        """Return the result of `method`; raise `RpcRejected` for an error response."""
        id = next(self._ids)
        request: JsonObject = {"jsonrpc": "2.0", "id": id, "method": method, "params": [*params]}
        status, body = await self._post(dump_bytes(request))
        answer = maybe_object(body)
        if answer is None or answer.get("id") not in {id, None}:
            raise self._not_json_rpc(status)
        if answer.get("error") is not None:
            raise _rejection(method, answer["error"])
        if "result" not in answer:
            raise self._not_json_rpc(status)
        return answer["result"]

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        if self._session is None:
            raise RuntimeError("the JSON-RPC client is not open")
        try:
            async with self._session.post(
                self._url, data=body, headers=_JSON, allow_redirects=False
            ) as response:
                return response.status, await _whole(response)
        except TimeoutError:
            raise TimedOut(
                f"the JSON-RPC server {self.origin} did not answer within {self._wait:g} s; "
                "try again, or set another `rpc_url`"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = type(error).__name__ if self._url in str(error) else str(error)
            raise Unreachable(
                f"the JSON-RPC server {self.origin} cannot be reached "
                f"({why or type(error).__name__}); check the network, or set another `rpc_url`"
            ) from None

    def _not_json_rpc(self, status: int) -> BrokenWire | RateLimited | Unreachable:
        if status == 429:
            return RateLimited(
                f"the JSON-RPC server {self.origin} returned 429 (too many requests); "
                "wait, or set another `rpc_url`",
                retry_after=10.0,
            )
        if status >= 500:
            return Unreachable(
                f"the JSON-RPC server {self.origin} returned HTTP {status}; set another `rpc_url`"
            )
        return BrokenWire(f"{self.origin} returned HTTP {status} without JSON-RPC; check `rpc_url`")


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > _MAX_ANSWER:
            raise BrokenWire(f"the JSON-RPC server returned more than {_MAX_ANSWER} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _rejection(method: str, error: Json) -> RpcRejected:
    found: JsonObject = error if isinstance(error, dict) else {"message": str(error)}
    code = found.get("code")
    return RpcRejected(
        method, code if isinstance(code, int) else 0, str(found.get("message") or ""), _data(found)
    )


def _data(error: JsonObject) -> str:
    """Return the revert data, which some servers nest inside `data`."""
    data = error.get("data")
    while isinstance(data, dict):
        data = data.get("data") or data.get("result")
    return data if isinstance(data, str) and data.startswith("0x") else ""
