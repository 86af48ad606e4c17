"""A gateway is replaced or stopped while requests run."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from tests.operating import WAIT, Load, ask, config_for, is_gone, logged, models, rewrite, until
from tests.processes import gateway_process

from toolbridge.cli import state

pytestmark = pytest.mark.operation


@asynccontextmanager
async def background(home: Path, config: str, *flags: str, fds: dict | None = None):
    """Run a gateway with a pid file; yield its URL and the file. Whoever has replaced it is ended."""
    (home / "t.toml").write_text(config)
    file = home / "gateway.pid"
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OLLAMA_HOST": "127.0.0.1:1"}
    with (home / "log").open("ab") as log:
        process = subprocess.Popen(  # noqa: ASYNC220  a moment, in a test
            [sys.executable, "-m", "toolbridge", "serve", "--port=0", "--config", "t.toml",
             "--announce", str(file), *flags],
            cwd=home, env=env, stdout=log, stderr=log, start_new_session=True, **(fds or {}),
        )  # fmt: skip
    try:
        await until(lambda: file.exists() or process.poll() is not None)
        assert process.poll() is None, (home / "log").read_text()
        yield state.find(file).url, file
    finally:
        while (running := state.find(file)) is not None:
            os.kill(running.pid, signal.SIGTERM)
            await until(lambda pid=running.pid: not state.alive(pid))
        await asyncio.to_thread(process.wait, WAIT)


def pid_in(file: Path) -> int:
    found = state.find(file)
    return found.pid if found else 0


async def replace(file: Path) -> int:
    """Replace the gateway; return the pid of the new one."""
    before = pid_in(file)
    os.kill(before, signal.SIGUSR2)
    await until(lambda: pid_in(file) not in {0, before})
    return pid_in(file)


@pytest.mark.parametrize("keep_alive", [True, False])
async def test_no_request_fails_while_the_gateway_is_replaced_three_times(tmp_path, keep_alive):
    async with models("m") as [(_, server)]:
        async with background(tmp_path, config_for(server, 'log = "off"')) as (url, file):
            load = Load(url, 4, keep_alive=keep_alive)
            pids = {pid_in(file)}
            for _ in range(3):
                before = load.done
                await until(lambda before=before: load.done > before + 20)
                pids.add(await replace(file))
            before = load.done
            await until(lambda: load.done > before + 20)
            await load.end()
            assert load.failed == []
            assert len(pids) == 4
    assert load.done > 80


async def test_a_running_stream_finishes_in_the_old_process(tmp_path):
    async with models("m") as [(gate, server)]:
        async with background(tmp_path, config_for(server)) as (url, file):
            gate.open.clear()
            running = [asyncio.create_task(ask(url)) for _ in range(3)]
            await until(lambda: gate.begun == 3)
            old = pid_in(file)
            new = await replace(file)
            later = asyncio.create_task(ask(url))
            await until(lambda: gate.begun == 4)
            assert state.alive(old), "it has running requests"
            gate.open.set()
            assert await asyncio.gather(*running, later) == ["m end"] * 4
            await until(lambda: not state.alive(old))
            assert pid_in(file) == new, "the old process leaves the pid file of the new one"


async def test_a_structured_stream_of_the_old_process_is_followed_in_the_new_one(tmp_path):
    async with models("m") as [(gate, server)]:
        tables = '[models."there/m"]\ntools = false\n'
        async with background(tmp_path, config_for(server, tables=tables)) as (url, file):
            gate.open.clear()
            connector = aiohttp.TCPConnector(force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                body = {"prompt": "x", "mode": "sentinel"}
                async with session.post(f"{url}/v1/stream", json=body) as answer:
                    run = answer.headers["x-toolbridge-run"]
                    await until(lambda: gate.begun == 1)
                    await replace(file)
                    status, end = 0, time.monotonic() + WAIT
                    while status != 409:  # the old process may accept for a moment
                        assert time.monotonic() < end
                        results = session.post(
                            f"{url}/v1/stream/{run}/results", json={"id": "T1", "result": 1}
                        )
                        async with results as refused:
                            status = refused.status
                    async with session.get(f"{url}/v1/stream/{run}") as followed:
                        gate.open.set()
                        again = await followed.text()
                    whole = await answer.text()
    assert "abandoned" not in again
    assert "event: done" in again
    assert again.count("data:") == whole.count("data:")


async def test_the_old_process_ends_its_answers_after_the_grace(tmp_path):
    async with models("m") as [(gate, server)]:
        settings = config_for(server, "restart_grace = 0.3", "stop_grace = 1.0")
        async with background(tmp_path, settings) as (url, file):
            gate.open.clear()
            running = asyncio.create_task(ask(url))
            await until(lambda: gate.begun == 1)
            old = pid_in(file)
            await replace(file)
            with pytest.raises((aiohttp.ClientError, AssertionError)):
                await running
            await until(lambda: not state.alive(old))
            gate.open.set()
            assert await ask(url) == "m end"


async def test_a_connection_whose_answer_has_begun_gets_one_more_answer(tmp_path):
    async with models("m") as [(gate, server)]:
        async with background(tmp_path, config_for(server)) as (url, file):
            gate.open.clear()
            connector = aiohttp.TCPConnector(limit=1)
            async with aiohttp.ClientSession(connector=connector) as session:
                body = {
                    "model": "x",
                    "stream": True,
                    "messages": [{"role": "user", "content": "x"}],
                }
                completions = f"{url}/v1/chat/completions"
                async with session.post(completions, json=body) as begun:
                    assert begun.headers.get("connection") != "close"  # another request may follow
                    await until(lambda: gate.begun == 1)
                    old = pid_in(file)
                    await replace(file)
                    await asyncio.sleep(0.5)  # the old process ends when its answers have ended
                    gate.open.set()
                    assert "[DONE]" in await begun.text()
                for _ in range(20):  # a process that is slow to end may allow another request
                    async with session.post(completions, json=body) as last:
                        assert "[DONE]" in await last.text()
                    if last.headers["connection"] == "close":
                        break
                assert last.headers["connection"] == "close"
            await until(lambda: not state.alive(old))


async def test_a_replaced_process_leaves_the_pid_file_alone(tmp_path):
    async with models("m") as [(gate, server)]:
        async with background(tmp_path, config_for(server)) as (url, file):
            gate.open.clear()
            running = asyncio.create_task(ask(url))
            await until(lambda: gate.begun == 1)
            old, before = pid_in(file), file.read_bytes()
            new = await replace(file)
            after = file.read_bytes()
            file.write_bytes(before)  # what the old process sees if the new one writes late
            gate.open.set()
            assert await running == "m end"
            await until(lambda: not state.alive(old))
            assert file.read_bytes() == before
            file.write_bytes(after)
            assert pid_in(file) == new


async def test_a_gateway_that_cannot_be_replaced_goes_on(tmp_path):
    async with models("m") as [(_, server)]:
        async with background(tmp_path, config_for(server)) as (url, file):
            old = pid_in(file)
            rewrite(tmp_path / "t.toml", "[map\n")
            os.kill(old, signal.SIGUSR2)
            await until(lambda: (found := state.find(file)) and "status 1" in found.fault)
            assert pid_in(file) == old
            assert await ask(url) == "m end"
            assert "was not replaced, this process goes on" in (tmp_path / "log").read_text()
            rewrite(tmp_path / "t.toml", config_for(server))
            assert await replace(file) != old
            assert await ask(url) == "m end"


async def test_the_commands_reload_and_restart(tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:1"}

    def run(*words: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "toolbridge", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    async with models("a", "b") as [(_, first), (_, second)]:
        file = tmp_path / "t.toml"
        file.write_text(config_for(first))
        assert (await asyncio.to_thread(run, "reload")).returncode == 3
        assert (await asyncio.to_thread(run, "restart")).returncode == 3
        started = await asyncio.to_thread(
            run, "serve", "--background", "--port=0", "--config=t.toml"
        )
        assert started.returncode == 0, started.stderr
        try:
            url = started.stdout.split()[4]
            assert await ask(url) == "a end"
            rewrite(file, config_for(second))
            reloaded = await asyncio.to_thread(run, "reload")
            assert (reloaded.returncode, reloaded.stderr) == (0, "")
            assert await ask(url) == "b end"
            rewrite(file, "heal = 1.5\n")
            refused = await asyncio.to_thread(run, "reload")
            assert refused.returncode == 1
            assert "the old configuration stays: t.toml: heal: expected `int`" in refused.stdout
            failed = await asyncio.to_thread(run, "restart")
            assert (failed.returncode, "goes on" in failed.stdout) == (1, True)
            rewrite(file, config_for(first))
            assert "was replaced (pid" in (await asyncio.to_thread(run, "restart")).stdout
            assert await ask(url) == "a end"
        finally:
            stopped = await asyncio.to_thread(run, "stop")
        assert stopped.stdout.startswith("stopped")


@pytest.mark.parametrize("workers", [1, 2])
async def test_the_commands_say_what_applies_a_changed_port(tmp_path, workers):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:1"}

    def run(*words: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "toolbridge", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    async with models("a") as [(_, first)]:
        file = tmp_path / "t.toml"
        before = ("port = 0", f"workers = {workers}")
        file.write_text(config_for(first, *before))
        started = await asyncio.to_thread(run, "serve", "--background", "--config=t.toml")
        assert started.returncode == 0, started.stderr
        try:
            url = started.stdout.split()[4]
            rewrite(file, config_for(first, "port = 1", "workers = 3", "store_bytes = 2000000"))
            reloaded = await asyncio.to_thread(run, "reload")
            assert reloaded.returncode == 0
            stop = "run `toolbridge stop` and `toolbridge serve` to apply: port, workers"
            assert stop in reloaded.stdout
            assert "run `toolbridge restart` to apply: store_bytes" in reloaded.stdout
            for _ in range(2):
                refused = await asyncio.to_thread(run, "restart")
                assert refused.returncode == 1, refused.stdout
                assert stop in refused.stdout
            assert await ask(url) == "a end"
            rewrite(file, config_for(first, *before, "store_bytes = 2000000"))
            replaced = await asyncio.to_thread(run, "restart")
            assert replaced.returncode == 0, replaced.stdout
            reloaded = await asyncio.to_thread(run, "reload")
            assert "to apply" not in reloaded.stdout
        finally:
            await asyncio.to_thread(run, "stop")


# ── SIGTERM ──────────────────────────────────────────────────────────────────


async def test_at_sigterm_running_answers_finish_and_new_connections_are_refused(tmp_path):
    async with models("m") as [(gate, server)]:
        settings = config_for(server, "stop_grace = 60.0")
        async with gateway_process(tmp_path, settings) as process:
            gate.open.clear()
            running = asyncio.create_task(ask(process.url))
            await until(lambda: gate.begun == 1)
            os.kill(process.pid, signal.SIGTERM)
            host, port = process.url.removeprefix("http://").split(":")

            def refused() -> bool:
                with socket.socket() as probe:
                    return probe.connect_ex((host, int(port))) != 0

            await until(refused)
            assert not running.done()
            gate.open.set()
            assert await running == "m end"


STOPPED = {
    "/v1/messages": {"max_tokens": 9, "messages": [{"role": "user", "content": "q"}]},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "q"}]},
    "/v1/responses": {"input": "q"},
    "/v1beta/models/x:streamGenerateContent?alt=sse": {"contents": [{"parts": [{"text": "q"}]}]},
    "/api/chat": {"messages": [{"role": "user", "content": "q"}]},
}


async def test_after_the_grace_every_stream_ends_with_an_error_of_its_api(tmp_path):
    async def read(path: str) -> str:
        body = STOPPED[path] | {"model": "x", "stream": True}
        said = b""
        async with (
            aiohttp.ClientSession() as session,
            session.post(process.url + path, json=body) as answer,
        ):
            with suppress(aiohttp.ClientError):
                async for piece in answer.content.iter_any():
                    said += piece
                    reading.add(path)
        return said.decode()

    reading: set[str] = set()

    async with models("m") as [(gate, server)]:
        settings = config_for(server, "stop_grace = 1.0")
        async with gateway_process(tmp_path, settings) as process:
            gate.open.clear()
            running = [asyncio.create_task(read(path)) for path in STOPPED]
            await until(lambda: reading == set(STOPPED))
            os.kill(process.pid, signal.SIGTERM)
            for path, said in zip(STOPPED, await asyncio.gather(*running), strict=True):
                assert "the gateway was stopped" in said.rstrip().split("\n")[-1], path
                assert "[DONE]" not in said, path
            await until(lambda: is_gone(process.pid))
            assert logged(process).count("the gateway was stopped") == len(STOPPED)
            assert "truncated" not in logged(process)
            assert "Traceback" not in logged(process)


async def test_readiness_is_false_for_a_while_before_the_port_closes(tmp_path):
    async with models("m") as [(_, server)]:
        settings = config_for(server, "drain_delay = 3000.0", "stop_grace = 60.0")
        async with (
            gateway_process(tmp_path, settings) as process,
            aiohttp.ClientSession() as session,
        ):
            for path in ("/readyz", "/health/readiness", "/healthz", "/livez", "/health/liveness"):
                async with session.get(process.url + path) as answer:
                    assert answer.status == 200, path
            idle = aiohttp.ClientSession()
            assert await ask(process.url, idle) == "m end"
            os.kill(process.pid, signal.SIGTERM)

            async def status(path: str) -> int:
                async with session.get(process.url + path) as answer:
                    return answer.status

            while await status("/readyz") != 503:  # noqa: ASYNC110  over the network
                await asyncio.sleep(0.03)
            assert await status("/health/readiness") == 503
            assert await status("/livez") == 200
            assert await ask(process.url) == "m end", "requests are still served"
            assert await ask(process.url, idle) == "m end", "an idle connection was not closed"
            await idle.close()
            os.kill(process.pid, signal.SIGTERM)  # ends the delay
            await until(lambda: is_gone(process.pid))
            assert "Traceback" not in logged(process)


# ── systemd ──────────────────────────────────────────────────────────────────


async def test_a_socket_of_systemd_is_served_and_systemd_is_notified(tmp_path, monkeypatch):
    """As systemd does it: descriptor 3, LISTEN_PID, and a datagram when the service is ready."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.chdir(tmp_path)
    channel.bind("notify")  # the length of an absolute path is limited
    channel.settimeout(WAIT)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    env = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:1",
        "NOTIFY_SOCKET": "notify", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http",
    }  # fmt: skip
    # The shell keeps its pid with `exec`, and descriptor 3 is the listener.
    script = f'export LISTEN_PID=$$; exec 3<&{listener.fileno()}; exec "$@"'
    command = [sys.executable, "-m", "toolbridge", "serve", "--model=demo"]
    process = subprocess.Popen(  # noqa: ASYNC220  a moment, in a test
        ["bash", "-c", script, "bash", *command], env=env, cwd=tmp_path,
        pass_fds=[listener.fileno()], stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        message = (await asyncio.to_thread(channel.recv, 1000)).decode()
        assert message.split("\n") == ["READY=1", f"MAINPID={process.pid}"]
        assert f"http://127.0.0.1:{port}" in process.stdout.readline().decode()
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                assert (await answer.json())["status"] == "ready"
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, WAIT)
        process.stdout.close()
        listener.close()
        channel.close()


async def test_a_socket_of_systemd_on_all_addresses_needs_a_key(tmp_path):
    listener = socket.create_server(("0.0.0.0", 0))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LISTEN_FDS": "1"}
    script = f'export LISTEN_PID=$$; exec 3<&{listener.fileno()}; exec "$@"'
    command = [sys.executable, "-m", "toolbridge", "serve", "--model=demo"]
    done = await asyncio.to_thread(
        subprocess.run, ["bash", "-c", script, "bash", *command], env=env, cwd=tmp_path,
        pass_fds=[listener.fileno()], capture_output=True, text=True, timeout=WAIT,
    )  # fmt: skip
    listener.close()
    assert done.returncode == 1
    assert "does not listen on 0.0.0.0 without a key" in done.stderr
