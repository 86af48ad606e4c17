"""Structured streams: how long the demo takes, and what a thousand slow readers cost in memory.

    python bench/streams.py [READERS]

The server runs in a process of its own; the model server that it asks is here, as are the readers.
"""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DELTAS, SIZE = 400, 400
DEMO = {"prompt": "Find pizza near me; book a table at 7pm if open.", "profile": "demo"}
ONE = {"prompt": "Find pizza near me.", "tools": ["places.search"]}
CONFIG = """
log = "off"
[map]
default = "{default}"
[providers.mock]
api = "openai_chat"
url = "http://127.0.0.1:{port}/v1"
[stream]
artifacts = {artifacts}
frame = 10000000
"""


# ── the model ────────────────────────────────────────────────────────────────


async def model(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with a long object that holds the number of the prompt again and again."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if (size := re.search(rb"content-length: (\d+)", head, re.IGNORECASE)) is None:
            writer.write(
                b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            return  # a list of models
        body = json.loads(await reader.readexactly(int(size[1])))
        mark = re.search(r"number (\d+)", str(body["messages"]))[1]
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        )
        piece = f"<{mark}>" * (SIZE // (len(mark) + 2))
        writer.write(chunk('⟦BEGIN_RESULT id=R1 schema=AssistantReply⟧{"answer":"'))
        for _ in range(DELTAS):
            writer.write(chunk(piece))
            await writer.drain()
        writer.write(chunk('","citations":[]}⟦END_RESULT id=R1⟧') + b"data: [DONE]\n\n")
        await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def chunk(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


# ── the readers ──────────────────────────────────────────────────────────────


class Reader:
    """Starts a stream, reads a little, waits for the word, and reads the rest."""

    def __init__(self, number: int, port: int) -> None:
        self.number = number
        self._port = port

    async def start(self) -> None:
        self._in, self._out = await asyncio.open_connection("127.0.0.1", self._port, limit=4096)
        body = json.dumps({"prompt": f"number {self.number}", "mode": "sentinel"}).encode()
        self._out.write(
            b"POST /v1/stream HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        self._seen = await self._in.readuntil(b"result.begin")

    async def finish(self) -> str:
        """Return what is wrong with the stream; nothing if it is whole and only its own."""
        pieces = [self._seen]
        while piece := await self._in.read(4096):
            pieces.append(piece)
        self._out.close()
        text = b"".join(pieces).decode()
        marks = set(re.findall(r"<(\d+)>", text))
        if marks != {str(self.number)}:
            return f"{self.number}: saw {sorted(marks)[:5]}"
        if text.count(f"<{self.number}>") != DELTAS * (SIZE // (len(str(self.number)) + 2)):
            return f"{self.number}: has {text.count('<')} marks"
        if text.count("event: done") != 1 or '"status"' in text or "event: error" in text:
            return f"{self.number}: was not whole"
        return ""


# ── the server ───────────────────────────────────────────────────────────────


class Server:
    def __init__(
        self, default: str, port: int, *, artifacts: bool = False, first: str = ""
    ) -> None:
        self._home = tempfile.TemporaryDirectory()
        config = Path(self._home.name) / "toolbridge.toml"
        config.write_text(
            first + CONFIG.format(default=default, port=port, artifacts=str(artifacts).lower())
        )
        command = Path(sys.executable).parent / "toolbridge"
        self._process = subprocess.Popen(
            [command, "serve", "--config", config, "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            env={"HOME": self._home.name, "PATH": os.environ["PATH"]},
        )
        line = self._process.stdout.readline()
        self.port = int(re.search(r":(\d+)", line)[1])

    @property
    def memory(self) -> float:
        """Resident memory, in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    @property
    def cpu(self) -> float:
        """Seconds of CPU time of all threads."""
        return cpu_of(self._process.pid)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._home.cleanup()


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def slow_readers(count: int) -> bool:
    mock = await asyncio.start_server(model, "127.0.0.1", 0, backlog=4096)
    server = Server("mock/m", mock.sockets[0].getsockname()[1])
    try:
        warm = Reader(0, server.port)
        await warm.start()
        await warm.finish()
        before = server.memory
        readers = [Reader(number, server.port) for number in range(1, count + 1)]
        for start in range(0, count, 50):
            await asyncio.gather(*(reader.start() for reader in readers[start : start + 50]))
        await asyncio.sleep(3)
        held = server.memory
        faults = [fault for fault in await asyncio.gather(*(r.finish() for r in readers)) if fault]
        total = count * DELTAS * SIZE / 1e6
        print(f"{count} slow readers, {total:.0f} MB in all:")
        print(f"  memory {before:.0f} MB before, {held:.0f} MB while nobody reads,")
        print(f"  {server.memory:.0f} MB after; {(held - before) * 1024 / count:.0f} KB a stream")
        print(f"  mixed, cut or lost: {len(faults)} {faults[:3] or ''}")
        return not faults
    finally:
        server.close()
        mock.close()


async def demo(runs: int = 20) -> None:
    server = Server("demo/toolbridge-demo", 1, artifacts=True)
    try:
        for name, body in (("one tool", ONE), ("two tools and a repair", DEMO)):
            times, frames, tools = [], 0, 0
            for _ in range(runs):
                started = time.perf_counter()
                text = await post(server.port, body)
                times.append((time.perf_counter() - started) * 1000)
                names = re.findall(r"^event: (\S+)", text, re.MULTILINE)
                frames = sum(n in {"json.end", "result.end", "tool.call"} for n in names)
                tools = names.count("tool.call")
            middle = statistics.median(times)
            print(f"demo, {name}: p50 {middle:.1f} ms, {tools} tools, {frames} frames, "
                  f"{middle / max(frames, 1):.1f} ms a frame")  # fmt: skip
    finally:
        server.close()


async def post(port: int, body: dict) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(body).encode()
    writer.write(
        b"POST /v1/stream HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(data), data)
    )
    text = (await reader.read()).decode()
    writer.close()
    return text


async def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    await demo()
    return 0 if await slow_readers(count) else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
