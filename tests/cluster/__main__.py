"""Run the cluster: start everything, send the load, kill gateways, compare the counts."""

import asyncio
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
from tests.cluster.upstream import CountingUpstream
from tests.peers import model_server
from tests.store_servers import (
    PostgresProcess,
    RedisProcess,
    free_port,
    postgres_programs,
    redis_program,
)

REQUESTS = 10_000
GATEWAYS = 3
AT_ONCE = 48
KILL_EVERY = 10.0
LONGEST = 290.0
BUDGET = 0.4
"""The share of the requests that the budget of the limited key admits."""
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
        self.port = free_port()
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


class Load:
    """The requests of all clients, and what became of them."""

    def __init__(self, url: str, keys: dict[str, str], count: int) -> None:
        self._url = url
        self._keys = keys
        self._marks = iter(range(count))
        self.outcomes: dict[str, Counter[str]] = {name: Counter() for name in keys}
        self.wrong: list[str] = []

    async def run(self) -> None:
        connector = aiohttp.TCPConnector(limit=AT_ONCE)
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(self._client(session) for _ in range(AT_ONCE)))

    async def _client(self, session: aiohttp.ClientSession) -> None:
        names = itertools.cycle(self._keys)
        for mark in self._marks:
            name = next(names)
            self.outcomes[name][await self._ask(session, name, mark)] += 1

    async def _ask(self, session: aiohttp.ClientSession, name: str, mark: int) -> str:
        """Send one request, once. Repeats with the same Idempotency-Key, and streams that are
        resumed on another gateway after a kill, belong here."""
        body = {
            "model": "m", "stream": True, "max_tokens": 20,
            "messages": [{"role": "user", "content": f"mark {mark} please"}],
        }  # fmt: skip
        headers = {"authorization": f"Bearer {self._keys[name]}"}
        path = f"{self._url}/v1/chat/completions"
        try:
            async with session.post(path, json=body, headers=headers) as answer:
                text = await answer.text()
        except aiohttp.ClientError:
            return "lost"
        if answer.status != 200:
            return str(answer.status)
        found = re.findall(r'"content":"(.*?)"', text)
        if "[DONE]" not in text or '"error"' in text:
            return "broken"
        if "".join(found) != f"answer {mark} end":
            self.wrong.append(f"{mark}: {found}")
        return "whole"


async def kills(members: list[Member]) -> None:
    for member in itertools.cycle(members):
        await asyncio.sleep(KILL_EVERY)
        await asyncio.to_thread(member.kill)
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
        limit = round(count / 2 * BUDGET)
        keys = {
            "free": command(operator, "key", "create", "free").split()[0],
            "limited": command(
                operator, "key", "create", "limited", "--requests", f"{limit}/month"
            ).split()[0],
        }
        members = [Member(home / f"g{n}", config) for n in range(GATEWAYS)]
        for member in members:
            stack.callback(member.kill)
        await asyncio.gather(*(member.ready() for member in members))
        port = free_port()
        servers = " ".join(
            f"server 127.0.0.1:{member.port} max_fails=1 fail_timeout=1s;" for member in members
        )
        (home / "nginx.conf").write_text(NGINX.format(home=home, servers=servers, port=port))
        nginx = await asyncio.to_thread(subprocess.Popen, ["nginx", "-c", str(home / "nginx.conf")])
        stack.callback(nginx.wait)
        stack.callback(nginx.terminate)
        load = Load(f"http://127.0.0.1:{port}", keys, count)
        killing = asyncio.create_task(kills(members))
        began = time.monotonic()
        async with asyncio.timeout(LONGEST):
            await load.run()
        took = time.monotonic() - began
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
        await asyncio.gather(*(member.ready() for member in members))
        for member in members:
            await asyncio.to_thread(member.stop)
        rows = [
            json.loads(line)
            for line in command(operator, "usage", "--json", "--by", "key").splitlines()
        ]
        shown = command(operator, "key", "show", "limited")
        for line, times in Counter(n for m in members for n in m.notices).most_common(10):
            print(f"notice:   {line} ({times} times)")
    return _judge(load, upstream, {row["key"]: row for row in rows}, shown, (limit, took))


def _judge(load, upstream, rows, shown, facts) -> list[str]:
    limit, took = facts
    wrong = list(load.wrong)
    twice = [mark for mark, times in upstream.seen.items() if times > 1]
    outcomes = {name: dict(found) for name, found in load.outcomes.items()}
    written = sum(row["requests"] for row in rows.values())
    refused = sum(found["429"] for found in load.outcomes.values())
    sent = sum(upstream.seen.values())
    used = int(re.search(r"used\s+([\d,]+) requests", shown)[1].replace(",", ""))
    killed = sum(found["502"] + found["lost"] + found["broken"] for found in load.outcomes.values())
    print(
        f"{sum(sum(found.values()) for found in load.outcomes.values())} requests in {took:.0f} s"
    )
    print(f"outcomes: {outcomes}")
    print(f"upstream: {sent} requests, {len(twice)} of them twice")
    print(f"budget:   {used} of {limit} requests used")
    print(f"ledger:   {written} rows, {refused} answers with 429")
    if twice:
        wrong.append(f"sent twice: {twice[:5]}")
    if used != limit:
        wrong.append(f"{used} requests are charged, and the budget has {limit}")
    if load.outcomes["limited"]["whole"] > limit:
        wrong.append("the budget admitted more than it has")
    # A gateway that is killed loses the rows of the last tenth of a second and of what runs.
    wholes = sum(found["whole"] for found in load.outcomes.values())
    in_ledger = sum(row["requests"] - row["errors"] for row in rows.values())
    if not wholes - killed - AT_ONCE <= in_ledger <= wholes + killed:
        wrong.append(f"{in_ledger} answers are in the ledger, and {wholes} arrived")
    return wrong


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
