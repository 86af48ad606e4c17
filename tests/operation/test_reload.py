"""The configuration is read again while the gateway runs."""

import asyncio
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios

import aiohttp
import pytest
from tests.operating import (
    WAIT,
    ask,
    config_for,
    logged,
    models,
    notices,
    reload,
    rewrite,
    until,
)
from tests.processes import gateway_process

from toolbridge import trust

pytestmark = pytest.mark.operation


async def test_running_answers_finish_on_the_old_settings_and_new_requests_use_the_new(tmp_path):
    async with models("old", "new") as [(old, first), (new, second)]:
        async with gateway_process(tmp_path, config_for(first)) as process:
            old.open.clear()
            running = [asyncio.create_task(ask(process.url)) for _ in range(3)]
            await until(lambda: old.begun == 3)
            rewrite(tmp_path / "toolbridge.toml", config_for(second))
            assert "was reloaded from" in await reload(process)
            assert await ask(process.url) == "new end"
            assert not any(task.done() for task in running)
            old.open.set()
            assert await asyncio.gather(*running) == ["old end"] * 3
    assert len(second.heard) == 1
    assert new.begun == 1


async def test_a_changed_file_is_noticed_without_a_signal(tmp_path):
    async with models("old", "new") as [(_, first), (_, second)]:
        async with gateway_process(tmp_path, config_for(first)) as process:
            assert await ask(process.url) == "old end"
            rewrite(tmp_path / "toolbridge.toml", config_for(second))
            await until(lambda: notices(process))
            assert await ask(process.url) == "new end"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[map\n", "is not valid TOML: Expected ']' at the end of a table declaration (at line 1, "),
        ('\n[map]\ndefault = "there/m"\n[provider.x]\n', "there is no setting `provider`; did you"),
        ('[providers.there]\napi = "nope"\nurl = "http://x"\n', "providers.there"),
        ('\n\n[models."ollama/m"]\ndialect = "klingon"\n', "there is no dialect 'klingon'"),
        ('key = "$NOT_SET"\n', "the variable $NOT_SET is not set"),
        ("[http]\nmax_head = 1\n", "http.max_head: expected `int` >= 1024 (at line 2)"),
        ('[stream]\ntools = ["no/such/file.py"]\n', "no/such/file.py"),
    ],
)  # fmt: skip
async def test_a_bad_file_changes_nothing_and_its_fault_is_reported(tmp_path, text, fault):
    async with models("old") as [(_, first)]:
        async with gateway_process(tmp_path, config_for(first)) as process:
            rewrite(tmp_path / "toolbridge.toml", text)
            line = await reload(process, 0)
            assert "the old one stays" in line
            assert fault in line
            assert str(tmp_path / "toolbridge.toml") in line or "stream" in line
            assert await ask(process.url) == "old end"
            rewrite(tmp_path / "toolbridge.toml", config_for(first, "heal = 1"))
            assert "was reloaded" in await reload(process)


async def test_the_line_of_a_fault_that_needs_the_providers_is_reported(tmp_path):
    async with models("old") as [(_, first)]:
        async with gateway_process(tmp_path, config_for(first)) as process:
            rewrite(
                tmp_path / "toolbridge.toml", config_for(first, tables='[providers.b]\napi = "x"\n')
            )
            line = await reload(process, 0)
    assert "providers.b" in line
    assert "(at line 8)" in line


async def test_a_file_that_is_gone_changes_nothing(tmp_path):
    async with models("old") as [(_, first)]:
        async with gateway_process(tmp_path, config_for(first)) as process:
            (tmp_path / "toolbridge.toml").unlink()
            assert "there is no file" in await reload(process, 0)
            assert await ask(process.url) == "old end"


async def test_what_needs_a_restart_is_named_and_stays(tmp_path):
    async with models("old", "new") as [(_, first), (_, second)]:
        start = config_for(first, 'host = "127.0.0.1"', "store_bytes = 1000000")
        async with gateway_process(tmp_path, start) as process:
            changed = config_for(second, 'host = "::1"', "store_bytes = 2000000", "workers = 3")
            rewrite(tmp_path / "toolbridge.toml", changed + "[stream]\ngrace = 5.0\n")
            line = await reload(process)
            assert line.endswith("these need a restart: host, workers, store_bytes, stream.grace")
            assert await ask(process.url) == "new end"


async def test_keys_limits_and_the_log_follow(tmp_path):
    async with models("old") as [(_, first)]:
        async with gateway_process(tmp_path, config_for(first)) as process:
            assert await ask(process.url) == "old end"
            changed = config_for(
                first, 'key = "k-1234567890"', "max_body = 100", tables="[http]\nmax_headers = 3"
            )
            rewrite(tmp_path / "toolbridge.toml", changed)
            await reload(process)
            async with aiohttp.ClientSession() as session:
                post = session.post(f"{process.url}/v1/chat/completions", data=b"{}")
                async with post as answer:
                    assert answer.status == 431
                get = session.get(
                    f"{process.url}/v1/models", skip_auto_headers=["user-agent", "accept"]
                )
                async with get as answer:
                    assert answer.status == 401


async def test_a_file_that_pays_needs_consent_as_at_the_start(tmp_path):
    async with models("old") as [(_, first)]:
        async with gateway_process(tmp_path, config_for(first)) as process:
            paid = '[providers.paid]\napi = "node"\n[providers.paid.node]\nmodel = "r:f"\n'
            rewrite(tmp_path / "toolbridge.toml", config_for(first, tables=paid))
            line = await reload(process, 0)
            assert "sets payments in [providers.paid.node]" in line
            assert "toolbridge allow" in line
            assert await ask(process.url) == "old end"


async def test_a_file_of_the_working_directory_must_still_be_allowed(tmp_path):
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    async with models("old", "new") as [(_, first), (_, second)]:
        file = tmp_path / "toolbridge.toml"
        file.write_text(config_for(first))
        trust.allow(file, env)
        # Without `--config FILE`, so that the file is found in the working directory.
        script = 'exec "${@:1:$#-2}"'
        async with gateway_process(tmp_path, config_for(first), script=script) as process:
            assert await ask(process.url) == "old end"
            rewrite(file, config_for(second))
            line = await reload(process, 0)
            assert (
                "it has changed since you allowed it; read it, then run `toolbridge allow" in line
            )
            assert await ask(process.url) == "old end"
            before = len(notices(process))
            trust.allow(file, env)  # is noticed as well
            await until(lambda: len(notices(process)) > before)
            assert await ask(process.url) == "new end"


async def test_reload_can_be_turned_off(tmp_path):
    async with models("old", "new") as [(_, first), (_, second)]:
        async with gateway_process(tmp_path, config_for(first, 'reload = "off"')) as process:
            rewrite(tmp_path / "toolbridge.toml", config_for(second))
            assert 'is not read again: reload = "off"' in await reload(process)
            assert await ask(process.url) == "old end"


async def test_a_stream_of_events_goes_on_over_a_reload(tmp_path):
    """A run that began before a reload is found by its id after it."""
    async with models("old") as [(gate, first)]:
        async with gateway_process(tmp_path, config_for(first)) as process:
            gate.open.clear()
            async with aiohttp.ClientSession() as session:
                post = session.post(f"{process.url}/v1/stream", json={"prompt": "x"})
                async with post as answer:
                    run = answer.headers["x-toolbridge-run"]
                    await reload(process)
                    async with session.delete(f"{process.url}/v1/stream/{run}") as ended:
                        assert (await ended.json())["aborted"] is True
                    assert b"aborted" in await answer.read()
            gate.open.set()


def _on_its_own_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test-operation` would be inherited
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_terminal_that_is_closed_stops_the_gateway(tmp_path):
    """SIGHUP reloads, but not when it means that the terminal is gone."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "toolbridge", "serve", "--port=0", "--model=demo"],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, cwd=tmp_path,
        preexec_fn=_on_its_own_terminal,  # noqa: PLW1509  one thread
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:1"},
    )  # fmt: skip
    os.close(theirs)
    try:
        seen = b""
        while b"Stop with Ctrl-C" not in seen:
            seen += os.read(ours, 4096)
        process.send_signal(signal.SIGHUP)
        while b"was reloaded" not in seen:
            seen += os.read(ours, 4096)
        os.close(ours)
        assert process.wait(WAIT) == 0
    finally:
        process.kill()
        process.wait()


async def test_nothing_is_written_about_a_file_that_stays_the_same(tmp_path):
    async with models("old") as [(_, first)]:
        async with gateway_process(tmp_path, config_for(first)) as process:
            os.utime(tmp_path / "toolbridge.toml", (1, 1))
            await until(lambda: notices(process))
            await asyncio.gather(*(ask(process.url) for _ in range(20)))
            assert len(notices(process)) == 1
            assert "Traceback" not in logged(process)
