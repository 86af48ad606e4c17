"""Run the soak: start the gateway, send the traffic, judge every answer, count what stays."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.soak import upstream as upstreams
from tests.soak.plays import APIS, BROKEN, WATCHED, Play, plays

from toolbridge.conformance import clients
from toolbridge.conformance.client_requests import CasePart, CaseRequest, CaseTool, CaseTurn
from toolbridge.conformance.http_client import GatewayReply, HttpClient

AT_ONCE = 40
LIMIT = 60.0
"""Seconds that one request may take."""
LONGEST = 290.0
"""Seconds that the whole run may take."""
GROWTH = 24.0
"""Megabytes that the gateway may grow after the first fifth of the run: caches fill, leaks do not stop."""


class Gateway:
    def __init__(self, port: int) -> None:
        self._home = tempfile.TemporaryDirectory()
        config = Path(self._home.name) / "toolbridge.toml"
        config.write_text(_config(port), encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.gateway", "--port", "0", "--config", str(config),
             "--log", "off"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={"PATH": os.environ["PATH"], "HOME": self._home.name, "OLLAMA_HOST": "127.0.0.1:1",
                 "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        self.said: list[str] = []
        for line in self._process.stdout:
            self.said.append(line)
            if " at http://" in line:
                self.url = line.rsplit(" at ", 1)[1].strip()
                return
        raise SystemExit(f"the gateway did not start: {''.join(self.said)}")

    @property
    def megabytes(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text("utf-8")
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def held(self) -> dict:
        """Return how many tasks and open files the gateway has now."""
        self._process.send_signal(signal.SIGUSR1)
        for line in self._process.stdout:
            self.said.append(line)
            if line.startswith("HELD "):
                return json.loads(line.removeprefix("HELD "))
        raise SystemExit(f"the gateway died: {''.join(self.said[-40:])}")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._process.stdout.close()
        self._home.cleanup()


def _config(port: int) -> str:
    """Return the configuration: addresses alone, and passthrough for the watched providers."""
    url = f"http://127.0.0.1:{port}"
    lines = []
    for api in APIS:
        base = url + ("/v1" if api.startswith("openai") else "")
        lines.append(f'[providers.p_{api}]\napi = "{api}"\nurl = "{base}"\n')
        if api in WATCHED:
            lines.append(
                f'[providers.w_{api}]\napi = "{api}"\nurl = "{base}"\npassthrough = true\n'
            )
    return "\n".join(lines)


async def send(url: str, play: Play, upstream: upstreams.Upstream) -> None:
    client = clients.load(play.surface)
    tools = tuple(CaseTool(t.name, t.description, t.schema) for t in play.tools)
    turns = (CaseTurn("user", (CasePart(text=f"Please go on ({play.mark})"),)),)
    sent = client.ask(CaseRequest(turns, tools=tools), play.model, play.stream)
    leave = None
    if play.fault == "leaves":
        leave = upstream.speaking.setdefault(play.mark, asyncio.Event())
    reply = await HttpClient(url).ask(
        sent.path, sent.headers, json.dumps(sent.body).encode(), limit=LIMIT, leave=leave
    )
    upstream.speaking.pop(play.mark, None)
    play.faults += judge(play, reply, client)
    play.events = []  # ten thousand answers are not kept


def judge(play: Play, reply: GatewayReply, client: clients.CaseClient) -> list[str]:
    """Return what is wrong with an answer."""
    if reply.ended == "timeout":
        return [f"no end within {LIMIT:g} s"]
    if play.fault == "leaves":
        return [] if reply.ended == "left" else [f"ended before the client left: {reply.ended}"]
    if reply.status >= 400 or not reply.status:
        return _judge_rejection(play, reply, client)
    body = reply.body
    if play.stream:
        seen = client.read_stream(body)
    else:
        try:
            seen = client.read_whole(json.loads(body))
        except ValueError:
            return [f"the whole answer is no JSON: {body[:80]!r}"]
    if play.fault in BROKEN:
        if seen.terminal == "finished":
            return ["a broken answer looks like a success"]
        if reply.ended == "clean" and seen.terminal != "error":
            return ["a broken answer ends clean without an error"]
        return list(seen.faults)
    return [*seen.faults, *_judge_whole(play, reply, seen)]


def _judge_rejection(play: Play, reply: GatewayReply, client: clients.CaseClient) -> list[str]:
    if play.fault not in BROKEN:
        return [f"status {reply.status} after {play.attempts} attempts: {reply.body[:160]!r}"]
    try:
        said = client.read_error(json.loads(reply.body))
    except ValueError:
        said = ""
    return (
        [] if said else [f"status {reply.status} without the API's envelope: {reply.body[:80]!r}"]
    )


def _judge_whole(play: Play, reply: GatewayReply, seen) -> list[str]:
    found = []
    if seen.terminal != "finished" or reply.ended != "clean":
        found.append(f"expected an end, came {seen.terminal} ({reply.ended}) {seen.error[:80]}")
    if seen.text != play.message.text:
        found.append(f"the text differs: {seen.text[-60:]!r} for {play.message.text[-60:]!r}")
    calls = [(call.name, call.arguments) for call in seen.calls]
    if calls != [(call.name, call.arguments) for call in play.message.calls]:
        found.append(f"the calls differ: {calls}")
    return found


async def drive(url: str, todo: list[Play], upstream: upstreams.Upstream) -> None:
    queue = iter(todo)

    async def worker() -> None:
        for play in queue:
            await send(url, play, upstream)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def settle(gateway: Gateway, upstream: upstreams.Upstream, everything: list[Play]) -> dict:
    """Wait until nothing is under way, for a few seconds; return what is held then."""
    for _ in range(100):
        if not any(play.under_way for play in everything):
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(1.5)
    held = await asyncio.to_thread(gateway.held)
    return held | {"upstream": sum(play.under_way for play in everything)}


async def run(count: int, seed: int) -> int:
    everything = plays(count, seed)
    started = time.monotonic()
    async with upstreams.serve({play.mark: play for play in everything}) as upstream:
        gateway = Gateway(upstream.port)
        try:
            first = max(count // 5, 1)
            await drive(gateway.url, everything[:first], upstream)
            before = await settle(gateway, upstream, everything)
            memory = gateway.megabytes
            await drive(gateway.url, everything[first:], upstream)
            after = await settle(gateway, upstream, everything)
            growth = gateway.megabytes - memory
        finally:
            gateway.stop()
    return report(everything, before, after, growth, memory, time.monotonic() - started)


def report(everything, before, after, growth, memory, seconds) -> int:
    wrong = [(play, fault) for play in everything for fault in play.faults]
    for play, fault in wrong[:40]:
        how = "stream" if play.stream else "whole"
        print(f"{play.mark} {play.pair} {how} {play.fault}: {fault}")
    kinds = Counter(play.fault for play in everything)
    retried = [p for p in everything if p.fault in {"busy", "hangs_up"} and not p.faults]
    print(f"faults played: {dict(sorted(kinds.items()))}")
    print(f"retries that recovered: {len(retried)}; passthrough: "
          f"{sum(p.passthrough for p in everything)}; same API: "
          f"{sum(p.surface == p.upstream for p in everything)}")  # fmt: skip
    clean = sum("clean" in fault or "success" in fault for _, fault in wrong)
    print(f"clean ends without a finish: {clean}")
    print(f"held: {before['tasks']} then {after['tasks']} tasks, {before['files']} then "
          f"{after['files']} open files, {after['upstream']} upstream streams")  # fmt: skip
    print(f"memory: {memory:.0f} MB after the first fifth, {growth:+.1f} MB at the end")
    leaks = []
    if after["tasks"] > before["tasks"] + 2:
        leaks.append(f"tasks: {after['names']}")
    if after["files"] > before["files"] + AT_ONCE:
        leaks.append("open files")
    if after["upstream"]:
        leaks.append("upstream streams")
    if growth > GROWTH:
        leaks.append("memory")
    if seconds > LONGEST:
        leaks.append(f"time: {seconds:.0f} s")
    print(f"leaks: {', '.join(leaks) or 'none'}; {seconds:.0f} s")
    failed = len({play.mark for play, _ in wrong}) + len(leaks)
    print(f"{len(everything) - len({play.mark for play, _ in wrong})} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]] + [10_000, 1][len(sys.argv) - 1 :]
    sys.exit(asyncio.run(run(*numbers)))
