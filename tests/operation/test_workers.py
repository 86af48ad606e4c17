"""Several processes on one port."""

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from tests.certificates import Authority
from tests.operating import (
    WAIT,
    Load,
    ask,
    children,
    config_for,
    is_gone,
    logged,
    models,
    notices,
    reload,
    rewrite,
    until,
)
from tests.processes import gateway_process
from yarl import URL

pytestmark = pytest.mark.operation


@asynccontextmanager
async def workers(home: Path, config: str, count: int = 3):
    env = {"TMPDIR": str(home)}  # the counters of the workers are there
    async with gateway_process(home, f"workers = {count}\n{config}", env=env) as process:
        await until(lambda: len(children(process.pid)) == count)
        await until(lambda: b"Stop with Ctrl-C" in (home / "stdout.log").read_bytes())
        yield process


async def test_several_processes_answer_with_one_banner_and_unique_ids(tmp_path):
    async with models("m") as [(_, server)]:
        async with workers(tmp_path, config_for(server)) as process:
            ids = set()

            async def one() -> None:
                connector = aiohttp.TCPConnector(force_close=True)
                async with aiohttp.ClientSession(connector=connector) as session:
                    async with session.get(f"{process.url}/v1/models") as answer:
                        ids.add(answer.headers["request-id"])

            for _ in range(10):
                await asyncio.gather(*(one() for _ in range(20)))
            assert len(ids) == 200
            assert await asyncio.gather(*(ask(process.url) for _ in range(12))) == ["m end"] * 12
        assert (tmp_path / "stdout.log").read_text().count("Stop with Ctrl-C") == 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="sockets are counted in /proc")
async def test_connections_are_spread_over_all_workers(tmp_path):
    """Without that, the worker that wakes first got 35 to 38 of 40 connections."""
    async with models("m") as [(_, server)]:
        async with workers(tmp_path, config_for(server), 2) as process:
            port = URL(process.url).port
            first, second = children(process.pid)
            held = []

            async def connect(count: int) -> Counter[int]:
                """Open connections one after the other; return how many each worker has got."""
                before = sockets_of(process)
                for _ in range(count):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                    held.append(writer)
                    await asyncio.sleep(0.01)
                return sockets_of(process) - before

            assert (await connect(2)).total() == 2
            os.kill(first, signal.SIGSTOP)
            try:
                assert (await connect(20))[second] == 20, "one that hangs delays nobody"
            finally:
                os.kill(first, signal.SIGCONT)
            assert (await connect(16))[first] >= 13, "the one with fewer gets the next ones"
            for writer in held:
                writer.close()


def sockets_of(process) -> Counter[int]:
    """Return the number of open sockets of each worker."""
    found: Counter[int] = Counter()
    for pid in children(process.pid):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                found[pid] += file.readlink().name.startswith("socket:")
    return found


async def test_metrics_are_the_sum_of_all_workers_also_of_one_that_died(tmp_path):
    async with models("m") as [(_, server)]:
        async with workers(tmp_path, config_for(server)) as process:
            load = Load(process.url, 4, keep_alive=False)
            await until(lambda: load.done >= 60)
            await load.end()
            done = load.done

            async def counted() -> float:
                connector = aiohttp.TCPConnector(force_close=True)
                async with aiohttp.ClientSession(connector=connector) as session:
                    async with session.get(f"{process.url}/metrics") as answer:
                        text = await answer.text()
                found = re.findall(
                    r'toolbridge_requests_total\{model="m",.* (\S+)$', text, re.MULTILINE
                )
                return sum(map(float, found))

            # Each worker writes once per second, and what the victim has not written is lost. Then
            # it does not matter which worker answers.
            await until(lambda: written_counts(tmp_path) == done)
            assert [await counted() for _ in range(12)] == [done] * 12
            victim = children(process.pid)[0]
            os.kill(victim, signal.SIGKILL)
            await until(lambda: is_gone(victim) and len(children(process.pid)) == 3)
            assert await counted() == done
            assert await ask(process.url) == "m end"


def written_counts(home: Path) -> float:
    """Return the number of requests in the files of all workers."""
    rows = [
        row
        for file in home.glob("toolbridge-metrics-*/*.json")
        for row in json.loads(file.read_bytes())
    ]
    return sum(
        value
        for name, labels, value in rows
        if name == "toolbridge_requests_total" and ["model", "m"] in labels
    )


async def test_a_worker_that_dies_is_replaced_and_the_others_serve(tmp_path):
    async with models("m") as [(_, server)]:
        async with workers(tmp_path, config_for(server, 'log = "off"'), 2) as process:
            first = children(process.pid)
            os.kill(first[0], signal.SIGKILL)
            await until(lambda: f"(pid {first[0]}) ended with status -9" in logged(process))
            await until(lambda: first[0] not in children(process.pid))
            await until(lambda: len(children(process.pid)) == 2)
            assert first[1] in children(process.pid)
            assert await ask(process.url) == "m end"
            second = next(pid for pid in children(process.pid) if pid not in first)
            # The second death of a worker is followed by a pause.
            os.kill(second, signal.SIGKILL)
            await until(lambda: "a new one starts in 1 s" in logged(process))
            await until(
                lambda: len(children(process.pid)) == 2 and second not in children(process.pid)
            )


async def test_a_reload_reaches_every_worker_and_is_reported_once(tmp_path):
    async with models("old", "new") as [(_, first), (_, second)]:
        async with workers(tmp_path, config_for(first)) as process:
            file = tmp_path / "toolbridge.toml"
            rewrite(file, "workers = 3\n[map\n")
            assert "(at line 2, column 5)" in await reload(process, 0)
            assert await ask(process.url) == "old end"
            before = len(notices(process))
            rewrite(file, f"workers = 3\n{config_for(second)}")  # noticed without a signal
            await until(lambda: len(notices(process)) > before)
            end = time.monotonic() + WAIT
            answers = {"old end"}
            while answers != {"new end"}:
                assert time.monotonic() < end
                answers = set(await asyncio.gather(*(ask(process.url) for _ in range(12))))
            assert len(notices(process)) == before + 1


@pytest.mark.parametrize("keep_alive", [True, False])
async def test_all_workers_are_replaced_without_a_failed_request(tmp_path, keep_alive):
    async with models("m") as [(gate, server)]:
        async with workers(tmp_path, config_for(server, 'log = "off"'), 2) as process:
            load = Load(process.url, 4, keep_alive=keep_alive)
            seen = set(children(process.pid))
            for turn in range(2):
                before = load.done
                await until(lambda before=before: load.done > before + 20)
                os.kill(process.pid, signal.SIGUSR2)
                await until(
                    lambda turn=turn: logged(process).count("2 workers were replaced") == turn + 1
                )
                seen |= set(children(process.pid))
            before = load.done
            await until(lambda: load.done > before + 20)
            await load.end()
            assert load.failed == []
            assert len(seen) >= 6
            assert gate.begun >= 60


async def test_at_sigterm_all_end_and_running_answers_finish(tmp_path):
    async with models("m") as [(gate, server)]:
        async with workers(tmp_path, config_for(server, "stop_grace = 60.0")) as process:
            gate.open.clear()
            running = [asyncio.create_task(ask(process.url)) for _ in range(6)]
            await until(lambda: gate.begun == 6)
            pids = children(process.pid)
            os.kill(process.pid, signal.SIGTERM)
            await asyncio.sleep(0)
            gate.open.set()
            assert await asyncio.gather(*running) == ["m end"] * 6
            await until(lambda: all(map(is_gone, [*pids, process.pid])))
        assert "Traceback" not in logged(process)


async def test_workers_end_when_their_supervisor_is_killed(tmp_path):
    async with models("m") as [(_, server)]:
        async with workers(tmp_path, config_for(server)) as process:
            pids = children(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            await until(lambda: all(map(is_gone, pids)))
    assert logged(process).count("its supervisor has ended") == 3


async def test_a_run_is_followed_from_every_worker(tmp_path):
    """The events are in the store; only the worker that runs it takes results and aborts it."""
    async with models("m") as [(gate, server)]:
        tables = '[models."there/m"]\ntools = false\n'
        async with workers(tmp_path, config_for(server, tables=tables), 3) as process:
            gate.open.clear()
            connector = aiohttp.TCPConnector(force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                body = {"prompt": "x", "mode": "sentinel"}
                async with session.post(f"{process.url}/v1/stream", json=body) as answer:
                    run = answer.headers["x-toolbridge-run"]
                    statuses = set()
                    end = time.monotonic() + WAIT
                    while 409 not in statuses and time.monotonic() < end:
                        url = f"{process.url}/v1/stream/{run}/results"
                        async with session.post(url, json={"id": "T1", "result": 1}) as sent:
                            statuses.add(sent.status)
                            if sent.status == 409:
                                assert "active in another process" in (await sent.text())
                    assert 409 in statuses
                    followers = [
                        asyncio.create_task(_text(session, f"{process.url}/v1/stream/{run}"))
                        for _ in range(9)
                    ]
                    gate.open.set()
                    whole = await answer.text()
                    found = set(await asyncio.gather(*followers))
    assert "abandoned" not in whole
    assert {_events(text) for text in found} == {_events(whole)}


async def _text(session, url: str) -> str:
    async with session.get(url) as answer:
        return await answer.text()


def _events(text: str) -> str:
    return json.dumps([line for line in text.split("\n") if line.startswith(("event:", "data:"))
                       and "ping" not in line])  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "config", "fault"),
    [
        (["--local"], "", "workers: --local works with one process"),
        ([], ('[providers.n]\napi="node"\n[providers.n.node]\nmodel="r:f"\nhost_url="http://x"\n'
             'host_key="02"\n'), "providers.n is a node: each process would pay"),
        (["--workers=0"], "", "workers: expected `int` >= 1"),
    ],
)  # fmt: skip
def test_what_needs_one_process_is_refused(tmp_path, flags, config, fault):
    (tmp_path / "t.toml").write_text(config)
    done = subprocess.run(
        [sys.executable, "-m", "toolbridge", "serve", "--port=0", "--config=t.toml",
         "--workers=2", *flags],
        cwd=tmp_path, env={"HOME": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:1"},
        capture_output=True, text=True, timeout=WAIT, check=False,
    )  # fmt: skip
    assert done.returncode == (2 if flags == ["--workers=0"] else 1)
    assert fault in done.stderr


async def test_a_worker_that_cannot_start_ends_the_gateway(tmp_path):
    (tmp_path / "t.toml").write_text('[stream]\ntools = ["no/such.py"]\n')
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "toolbridge", "serve", "--port=0", "--config=t.toml", "--workers=3"],
        cwd=tmp_path, env={"HOME": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:1"},
        capture_output=True, text=True, timeout=WAIT, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "a worker did not start" in done.stderr
    assert done.stderr.count("stream.tools: no/such.py cannot be imported") == 1


async def test_workers_serve_tls_and_keep_it_when_they_are_replaced(tmp_path):
    authority = Authority(tmp_path)
    cert, key, _ = authority.issue()
    context = ssl.create_default_context(cafile=authority.file)
    tables = f'[tls]\nport = 0\ncert = "{cert}"\nkey = "{key}"\n'
    async with models("m") as [(_, server)]:
        async with workers(tmp_path, config_for(server, tables=tables), 2) as process:
            url = re.search(r"https://\S+", (tmp_path / "stdout.log").read_text())[0]
            load = Load(url, 2, keep_alive=True, ssl=context)
            await until(lambda: load.done > 10)
            os.kill(process.pid, signal.SIGUSR2)
            await until(lambda: "2 workers were replaced" in logged(process))
            before = load.done
            await until(lambda: load.done > before + 10)
            await load.end()
            assert load.failed == []


async def test_every_worker_explains_the_requests_of_all(tmp_path):
    async with models("m") as [(_, server)]:
        async with workers(tmp_path, config_for(server, 'log = "off"'), 2) as process:
            ids, processes = set(), set()

            async def one() -> None:
                connector = aiohttp.TCPConnector(force_close=True)
                async with aiohttp.ClientSession(process.url, connector=connector) as session:
                    messages = [{"role": "user", "content": "hi"}]
                    body = {"model": "x", "max_tokens": 9, "top_k": 3, "messages": messages}
                    async with session.post("/v1/messages", json=body) as answer:
                        ids.add(answer.headers["request-id"])
                        await answer.read()

            async def explain(id: str) -> None:
                connector = aiohttp.TCPConnector(force_close=True)
                async with aiohttp.ClientSession(process.url, connector=connector) as session:
                    end = time.monotonic() + WAIT
                    while True:
                        async with session.get(f"/v1/explain/{id}") as answer:
                            found = await answer.json()
                        if "edits" in found:
                            break
                        # A request is kept after its last byte, which its client may read before.
                        assert time.monotonic() < end, found
                        await asyncio.sleep(0.05)
                assert "top_k" in {edit["place"] for edit in found["edits"]}
                processes.add(found["process"])

            end = time.monotonic() + WAIT
            while len(processes) < 2:
                assert time.monotonic() < end
                ids.clear()
                await asyncio.gather(*(one() for _ in range(12)))
                await asyncio.gather(*(explain(id) for id in ids for _ in range(2)))
            assert len(ids) == 12
            said = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-m", "toolbridge", "explain", min(ids), "--url", process.url],
                capture_output=True, text=True, check=True, timeout=WAIT, cwd=tmp_path,
                env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            )  # fmt: skip
            assert "answered by the process" in said.stdout
            assert "removed top_k" in said.stdout
