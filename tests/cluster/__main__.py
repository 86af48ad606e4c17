"""Run the cluster: start everything, send the load, kill gateways, compare the counts."""

import asyncio
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import psycopg
from tests.cluster.load import Load
from tests.cluster.upstream import OUTPUT_TOKENS, PROMPT_TOKENS, CountingUpstream, kind_of
from tests.peers import model_server
from tests.ports import HeldPort
from tests.store_servers import (
    PostgresProcess,
    RedisProcess,
    postgres_programs,
    redis_program,
)

REQUESTS = 10_000
GATEWAYS = 3
KILL_EVERY = 10.0
LONGEST = 290.0
BUDGET = 0.4
"""The share of its requests that the budget of the limited key admits."""
RESUMED_WITHIN = 1.0
NGINX = """
worker_processes 1; daemon off; pid {home}/nginx.pid; error_log {home}/nginx.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {home}/b; proxy_temp_path {home}/p;
  fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
  upstream gateways {{ {servers} keepalive 64; }}
  server {{ listen 127.0.0.1:{port};
    location / {{ proxy_pass http://gateways; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_buffering off; proxy_request_buffering off;
      # Only a request that reached no gateway is sent to the next one.
      proxy_next_upstream error; proxy_next_upstream_tries 3; proxy_read_timeout 60s; }} }}
}}
"""


class Member:
    """One gateway, started again on the same port when it was killed."""

    def __init__(self, home: Path, config: str) -> None:
        self._home = home
        home.mkdir()
        self._held = HeldPort()
        self.port = self._held.number
        self._config = home / "toolbridge.toml"
        self._config.write_text(config)
        self.start()

    def start(self) -> None:
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "toolbridge", "serve", "--port", str(self.port),
                 "--config", str(self._config), "--log", "off"],
                stdout=log, stderr=log, cwd=self._home,
                env={"PATH": os.environ["PATH"], "HOME": str(self._home),
                     "OLLAMA_HOST": "127.0.0.1:1"},
            )  # fmt: skip

    async def ready(self) -> None:
        until = time.monotonic() + 60
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(f"http://127.0.0.1:{self.port}/readyz") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    assert time.monotonic() < until, (self._home / "log").read_text()
                await asyncio.sleep(0.05)

    @property
    def notices(self) -> list[str]:
        lines = (self._home / "log").read_text("utf-8").splitlines()
        return [line for line in lines if line.startswith("toolbridge: ")]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


async def kills(members: list[Member], killed: list[Member]) -> None:
    for member in itertools.cycle(members):
        await asyncio.sleep(KILL_EVERY)
        await asyncio.to_thread(member.kill)
        killed.append(member)
        member.start()


def command(config: Path, *args: str) -> str:
    """Run a command of the operator."""
    done = subprocess.run(
        [sys.executable, "-m", "toolbridge", args[0], "--config", str(config), *args[1:]],
        capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(config.parent)},
    )  # fmt: skip
    return done.stdout


async def play(count: int, home: Path) -> list[str]:
    """Return what is wrong."""
    upstream = CountingUpstream()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(model_server(upstream))
        redis, postgres = RedisProcess(durable=False), PostgresProcess()
        stack.callback(redis.close)
        stack.callback(postgres.close)
        config = (
            f'store = "{redis.url}"\nledger = "{postgres.url}"\n[map]\ndefault = "there/m"\n'
            f'[providers.there]\napi = "openai_chat"\nurl = "{server.url}"\nretries = 0\n'
        )
        operator = home / "operator.toml"
        operator.write_text(config)
        marks = [mark for mark in range(count) if kind_of(mark) == "plain" and mark % 2]
        limit = round(len(marks) * BUDGET)
        keys = {
            "plain": command(operator, "key", "create", "plain").split()[0],
            "limited": command(
                operator, "key", "create", "limited", "--requests", f"{limit}/month"
            ).split()[0],
        }
        members = [Member(home / f"g{n}", config) for n in range(GATEWAYS)]
        for member in members:
            stack.callback(member.kill)
        await asyncio.gather(*(member.ready() for member in members))
        held = HeldPort()
        stack.callback(held.close)
        port = held.number
        servers = " ".join(
            f"server 127.0.0.1:{member.port} max_fails=1 fail_timeout=1s;" for member in members
        )
        (home / "nginx.conf").write_text(NGINX.format(home=home, servers=servers, port=port))
        nginx = await asyncio.to_thread(subprocess.Popen, ["nginx", "-c", str(home / "nginx.conf")])
        stack.callback(nginx.wait)
        stack.callback(nginx.terminate)
        load = Load(f"http://127.0.0.1:{port}", keys, count)
        killed: list[Member] = []
        killing = asyncio.create_task(kills(members, killed))
        began = time.monotonic()
        async with asyncio.timeout(LONGEST):
            await load.run()
        took = time.monotonic() - began
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
        await asyncio.gather(*(member.ready() for member in members))
        for member in members:
            await asyncio.to_thread(member.stop)
        shown = command(operator, "key", "show", "limited")
        for line, times in Counter(n for m in members for n in m.notices).most_common(10):
            print(f"notice:   {line} ({times} times)")
        rows = await asyncio.to_thread(_rows, postgres.url)
    print(f"{count} requests in {took:.0f} s, {len(killed)} gateways killed")
    return [
        *load.wrong,
        *_counts(load, upstream),
        *_budget(shown, limit),
        *_ledger(load, upstream, rows),
    ]


def _rows(url: str) -> dict[int, list[tuple]]:
    """Return the rows of the ledger by mark: error, input, output, whether estimated."""
    found = defaultdict(list)
    with psycopg.connect(url) as connection:
        for session, *row in connection.execute(
            "select session, error, input, output, estimated from toolbridge_requests"
        ):
            found[int(session.removeprefix("mark-"))].append(tuple(row))
    return found


def _counts(load: Load, upstream: CountingUpstream) -> Iterator[str]:
    """Compare what clients got with what the upstream saw."""
    for kind, found in load.outcomes.items():
        print(f"{kind + ':':9} {dict(found)}")
    seen = upstream.seen
    twice = [mark for mark, times in seen.items() if times > 1]
    print(f"upstream: {sum(seen.values())} requests; {len(twice)} marks twice, after a kill")
    # A killed gateway cannot finish its answer, so a repeat is a new request. Nothing else is sent twice.
    if wrong := [mark for mark in twice if not load.unsure[mark] and mark not in load.broken]:
        yield f"sent twice: {wrong[:5]}"
    slowest = {}
    for name, times in (("resumed", load.resumed), ("others", load.ordinary)):
        shown = sorted(times)
        middle, high, slowest[name] = (
            shown[len(shown) // 2],
            shown[len(shown) * 99 // 100],
            shown[-1],
        )
        within = sum(one <= RESUMED_WITHIN for one in shown)
        print(
            f"{name + ':':9} {within} of {len(shown)} began within {RESUMED_WITHIN:g} s; median "
            f"{middle:.3f} s, 99 % {high:.3f} s, slowest {slowest[name]:.3f} s"
        )
    # A machine that is busy delays all requests; what resuming itself takes is judged.
    if slowest["resumed"] > RESUMED_WITHIN + slowest["others"]:
        yield f"a stream was resumed after {slowest['resumed']:.2f} s"
    if strange := load.outcomes["keyed"].keys() - {"whole", "whole after a repeat"}:
        yield f"requests with a key that were never answered: {strange}"


def _budget(shown: str, limit: int) -> Iterator[str]:
    used = int(re.search(r"used\s+([\d,]+) requests", shown)[1].replace(",", ""))
    print(f"budget:   {used} of {limit} requests used")
    if used != limit:
        yield f"{used} requests are charged, and the budget has {limit}"


def _ledger(load: Load, upstream: CountingUpstream, rows: dict[int, list[tuple]]) -> Iterator[str]:
    """Compare the rows with what the upstream saw, request by request."""
    interrupted = sum(row[0] == "interrupted" for found in rows.values() for row in found)
    exact = (PROMPT_TOKENS, OUTPUT_TOKENS, 0)
    whole = {mark: [row[0] for row in found if row[1:] == exact] for mark, found in rows.items()}
    print(
        f"ledger:   {sum(map(len, rows.values()))} rows, {interrupted} of them interrupted, "
        f"{sum(map(len, whole.values()))} with the tokens that the upstream reported"
    )
    missing = [mark for mark, times in upstream.seen.items() if len(rows[mark]) < times]
    if missing:
        yield f"{len(missing)} requests to the upstream have no row: {missing[:5]}"
    for mark, found in rows.items():
        # A refused request, or one that was lost with its gateway, may have a row of its own.
        if len(found) > upstream.seen[mark] + load.unsure[mark] + (mark in load.broken):
            yield f"{mark} has {len(found)} rows for {upstream.seen[mark]} requests: {found}"
        # A gateway may be killed between the end of an answer and its row, which then has the tokens.
        if mark in load.whole and (not whole[mark] or whole[mark].count("") > 1):
            yield f"{mark} was answered, and its rows are {found}"


def main() -> int:
    for program, there in (
        ("nginx", shutil.which("nginx")),
        ("redis-server or valkey-server", redis_program()),
        ("PostgreSQL", postgres_programs()),
    ):
        if not there:
            print(f"skipped: {program} is not installed")
            return 0
    count = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    with tempfile.TemporaryDirectory(prefix="tb-cluster-") as home:
        wrong = asyncio.run(play(count, Path(home)))
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
