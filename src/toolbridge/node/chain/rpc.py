"""JSON-RPC to a chain.

A server that cannot be reached, one that answers nonsense and one that refuses are told apart: only
after a refusal is it certain that a transaction was not taken.
"""

from itertools import count
from types import TracebackType
from typing import Self

import aiohttp

from toolbridge.core.errors import BrokenWire, RateLimited, Rejected, TimedOut, Unreachable
from toolbridge.core.json import Json, JsonObject, dump_bytes, maybe_object
from toolbridge.upstream.session import open_session

_MAX_ANSWER = 16 * 2**20
_JSON = {"content-type": "application/json"}


class RpcRejected(Rejected):
    """The server understood the question and said no."""

    def __init__(self, method: str, code: int, message: str, data: str = "") -> None:
        super().__init__(f"the chain refused {method}: {message[:300] or 'no reason'} ({code})")
        self.code = code
        self.message = message
        self.data = data
        """What a contract said when it reverted, in hex."""


class Rpc:
    def __init__(self, url: str, wait: float = 15.0) -> None:
        self._url = url
        self._wait = wait
        self._ids = count(1)
        self._session: aiohttp.ClientSession | None = None

    @property
    def place(self) -> str:
        """The part of the URL that may be shown: a path often holds a key."""
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
        """Return the result of `method`; raise `RpcRejected` when the server says no."""
        id = next(self._ids)
        question: JsonObject = {"jsonrpc": "2.0", "id": id, "method": method, "params": [*params]}
        status, body = await self._post(dump_bytes(question))
        answer = maybe_object(body)
        if answer is None or answer.get("id") not in {id, None}:
            raise self._no_answer(status)
        if answer.get("error") is not None:
            raise _refusal(method, answer["error"])
        if "result" not in answer:
            raise self._no_answer(status)
        return answer["result"]

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        if self._session is None:
            raise RuntimeError("the connection to the chain is not open")
        try:
            async with self._session.post(
                self._url, data=body, headers=_JSON, allow_redirects=False
            ) as response:
                return response.status, await _whole(response)
        except TimeoutError:
            raise TimedOut(
                f"the chain at {self.place} did not answer within {self._wait:g} s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = type(error).__name__ if self._url in str(error) else str(error)
            raise Unreachable(
                f"the chain at {self.place} cannot be reached ({why or type(error).__name__}); "
                "`rpc_url` names another server"
            ) from None

    def _no_answer(self, status: int) -> BrokenWire | RateLimited | Unreachable:
        if status == 429:
            return RateLimited(
                f"the chain at {self.place} takes no more questions for now; "
                "`rpc_url` names another server",
                retry_after=10.0,
            )
        if status >= 500:
            return Unreachable(f"the chain at {self.place} answered with {status}")
        return BrokenWire(f"what {self.place} answered ({status}) is no JSON-RPC; check `rpc_url`")


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > _MAX_ANSWER:
            raise BrokenWire(f"the chain answered with more than {_MAX_ANSWER} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _refusal(method: str, error: Json) -> RpcRejected:
    found: JsonObject = error if isinstance(error, dict) else {"message": str(error)}
    code = found.get("code")
    return RpcRejected(
        method, code if isinstance(code, int) else 0, str(found.get("message") or ""), _data(found)
    )


def _data(error: JsonObject) -> str:
    """Return a revert's data; servers disagree on how deep it lies."""
    data = error.get("data")
    while isinstance(data, dict):
        data = data.get("data") or data.get("result")
    return data if isinstance(data, str) and data.startswith("0x") else ""
