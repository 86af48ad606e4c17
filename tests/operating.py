"""Gateways that are reloaded, replaced and stopped while requests run."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from tests.peers import Heard, Line, Server, model_server
from tests.processes import GatewayProcess
from tests.streams import chunk

WAIT = 60.0
"""Seconds for anything to happen on a busy machine."""


async def until(what: Callable[[], object], wait: float = WAIT) -> None:
    """Poll until `what` is true."""
    end = time.monotonic() + wait
    while not await asyncio.to_thread(what):
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.03)


class Gate:
    """A model whose answers begin at once, and end when the gate is opened."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open = asyncio.Event()
        self.open.set()
        self.begun = 0

    async def __call__(self, _: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        await line.send(chunk({"content": f"{self.name} "}))
        self.begun += 1
        await self.open.wait()
        await line.send(chunk({"content": "end"}))
        await line.send(chunk({}, "stop") + "data: [DONE]\n\n")
        await line.end()


@asynccontextmanager
async def models(*names: str) -> AsyncIterator[list[tuple[Gate, Server]]]:
    """Serve one model per name."""
    if not names:
        yield []
        return
    gate = Gate(names[0])
    async with model_server(gate) as server, models(*names[1:]) as rest:
        yield [(gate, server), *rest]


def config_for(server: Server, *lines: str, tables: str = "") -> str:
    return "\n".join(
        [*lines, '[map]\ndefault = "there/m"', "[providers.there]", 'api = "openai_chat"',
         f'url = "{server.url}"', "retries = 0", tables]
    )  # fmt: skip


async def ask(
    url: str, session: aiohttp.ClientSession | None = None, *, stream: bool = True, **headers: str
) -> str:
    """Return the text of an answer to a chat request."""
    if session is None:
        async with aiohttp.ClientSession() as session:
            return await ask(url, session, stream=stream, **headers)
    body = {"model": "x", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
    async with session.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
        text = await answer.text()
        assert answer.status == 200, text
    if not stream:
        return json.loads(text)["choices"][0]["message"]["content"]
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: {")]
    assert text.rstrip().endswith("[DONE]"), text
    choices = [choice for line in lines for choice in json.loads(line)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def _processes() -> dict[int, tuple[int, str]]:
    """Return each process with its parent and its state, as Linux and macOS list them."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in listed.stdout.split("\n") if line.strip()]
    return {int(pid): (int(parent), state) for pid, parent, state in rows}


def children(pid: int) -> list[int]:
    """Return the processes that `pid` has started and that have not ended."""
    rows = _processes().items()
    return [one for one, (parent, state) in rows if parent == pid and state[0] != "Z"]


def is_gone(pid: int) -> bool:
    """Return whether a process has ended; its parent may not have noticed.

    `Zl` is one whose first thread has ended: the others still hold its sockets and locks.
    """
    state = _processes().get(pid, (0, "Z"))[1]
    return state.startswith("Z") and "l" not in state


def logged(process: GatewayProcess) -> str:
    return process.log.read_text("utf-8")


async def reload(process: GatewayProcess, marks: int | None = None) -> str:
    """Send SIGHUP; return the line that the gateway writes about it."""
    before = len(notices(process)) if marks is None else marks
    os.kill(process.pid, signal.SIGHUP)
    await until(lambda: len(notices(process)) > before)
    return notices(process)[before]


def notices(process: GatewayProcess) -> list[str]:
    return [line for line in logged(process).split("\n") if line.startswith("toolbridge: the conf")]


def rewrite(file: Path, text: str) -> None:
    """Replace a file as editors do."""
    made = file.with_name(f"{file.name}.new")
    made.write_text(text)
    made.replace(file)


class Load:
    """Clients that send one request after the other; failures are counted, not retried."""

    def __init__(self, url: str, clients: int, *, keep_alive: bool, ssl=True) -> None:
        self._ssl = ssl
        self.done = 0
        self.failed: list[str] = []
        self._ended = False
        self._tasks = [
            asyncio.create_task(self._run(url, keep_alive=keep_alive)) for _ in range(clients)
        ]

    async def _run(self, url: str, *, keep_alive: bool) -> None:
        connector = aiohttp.TCPConnector(force_close=not keep_alive, ssl=self._ssl)
        async with aiohttp.ClientSession(connector=connector) as session:
            while not self._ended:
                try:
                    assert await ask(url, session, stream=self.done % 2 == 0) == "m end"
                    self.done += 1
                except (aiohttp.ClientError, AssertionError, OSError) as error:
                    self.failed.append(repr(error))

    async def end(self) -> None:
        self._ended = True
        await asyncio.gather(*self._tasks)
