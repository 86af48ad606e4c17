"""A JSON-RPC server between us and a chain that passes everything on, and lies on demand."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

FAR = 10**6
COUNT = "eth_getTransactionCount"
RECEIPT = "eth_getTransactionReceipt"
SEND = "eth_sendRawTransaction"

LIES = (
    "nonce far ahead", "every nonce far ahead", "no receipts", "payments failed",
    "payments refused", "payments swallowed", "no logs", "short ranges", "fees", "down", "no funds",
)  # fmt: skip


@dataclass
class LyingRpc:
    """What it says instead of the truth is in `lies`."""

    url: str = ""
    chain: str = ""
    session: aiohttp.ClientSession | None = None
    lies: set[str] = field(default_factory=set)
    swallowed: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if "down" in self.lies:
            return web.Response(status=503, text="no")
        if asked["method"] == SEND and "payments swallowed" in self.lies:
            self.swallowed += 1
            return self._reply(asked, result="0x" + "11" * 32)
        if asked["method"] == "eth_getLogs" and "short ranges" in self.lies:
            first, last = (int(asked["params"][0][n], 16) for n in ("fromBlock", "toBlock"))
            if last - first > 20:
                return self._reply(asked, error={"code": -32005, "message": "range too large"})
        found = await self._true(asked)
        return web.json_response(self._twisted(asked["method"], asked["params"], found))

    async def _true(self, asked: dict) -> dict:
        async with self.session.post(self.chain, json=asked) as answer:
            return json.loads(await answer.read())

    def _reply(self, asked: dict, **more) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"]} | more)

    def _twisted(self, method: str, params: list, found: dict) -> dict:
        lies = self.lies
        if method == COUNT and "result" in found:
            far = "every nonce far ahead" in lies
            far = far or ("nonce far ahead" in lies and params[1] == "pending")
            if far:
                return found | {"result": hex(int(found["result"], 16) + FAR)}
        if method == RECEIPT and "no receipts" in lies:
            return found | {"result": None}
        if method == RECEIPT and "payments failed" in lies and found.get("result"):
            return found | {"result": found["result"] | {"status": "0x0", "logs": []}}
        if method == SEND and "payments refused" in lies:
            refusal = {"code": -32000, "message": "insufficient funds for gas * price + value"}
            return {"jsonrpc": "2.0", "id": found["id"], "error": refusal}
        if method == "eth_getLogs" and "no logs" in lies:
            return found | {"result": []}
        if method == "eth_maxPriorityFeePerGas" and "fees" in lies:
            return found | {"result": hex(10**13)}
        if method == "eth_getBalance" and "no funds" in lies:
            return found | {"result": "0x0"}
        return found


@asynccontextmanager
async def lying_rpc(chain: str) -> AsyncIterator[LyingRpc]:
    """Serve the truth about `chain`, until told otherwise."""
    liar = LyingRpc(chain=chain)
    app = web.Application()
    app.router.add_post("/", liar.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    liar.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    try:
        async with aiohttp.ClientSession() as liar.session:
            yield liar
    finally:
        await runner.cleanup()
