"""Claude Code, started by toolbridge: its arguments, its signals, its gateway."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from tests.operating import WAIT
from tests.peers import model_server, ollama, replay

pytestmark = pytest.mark.operation
TOOLBRIDGE = [sys.executable, "-m", "toolbridge", "claude"]


@pytest.fixture
def claude(env, tmp_path):
    """Return a function that starts `toolbridge claude` with a client that runs `script`."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *args: str) -> subprocess.Popen[str]:
        client = tmp_path / "claude"
        client.write_text(f"#!/bin/bash\n{script}\n")
        client.chmod(0o755)
        ours = env | {"PATH": f"{tmp_path}:{env['PATH']}"}
        started.append(
            subprocess.Popen(
                [*TOOLBRIDGE, *args], env=ours, cwd=tmp_path, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for process in started:
        process.terminate()  # and with it, all that it has started
        process.communicate()


def test_arguments_need_no_dashes_before_them(claude):
    out, _ = claude('echo "$@"', "-p", "say hi", "--verbose").communicate(timeout=WAIT)
    assert out == "-p say hi --verbose\n"


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -TERM $$", 143)])
def test_the_exit_status_is_the_clients(claude, script, status):
    assert claude(script).wait(WAIT) == status


def test_a_client_that_does_not_start_is_said_in_one_line(claude, tmp_path):
    for command in ("/none", str(tmp_path)):
        process = claude("exit", "--claude", command)
        _, error = process.communicate(timeout=WAIT)
        assert process.returncode == 1
        assert "was not found" in error


def reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=WAIT):
            return True
    except OSError:
        return False


WAITING = 'echo "$ANTHROPIC_BASE_URL $$ $(grep SigIgn /proc/$$/status)"; exec sleep 60'


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc here")
def test_ctrl_c_belongs_to_the_client(claude):
    process = claude(WAITING)
    _, client, _, ignored = process.stdout.readline().split()
    assert int(ignored, 16) & (1 << (signal.SIGINT - 1)) == 0
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    os.kill(int(client), signal.SIGINT)
    assert process.wait(WAIT) == 130


def test_ending_it_ends_what_it_has_started(claude):
    process = claude(WAITING)
    url, client, *_ = process.stdout.readline().split()
    assert reachable(url)
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT) == 143
    assert not reachable(url)
    with pytest.raises(ProcessLookupError):
        os.kill(int(client), 0)


SLOW_TO_END = 'trap "sleep 1; exit 0" TERM; echo $$; while :; do sleep 0.05; done'


def test_a_client_that_takes_a_moment_to_end_is_waited_for(claude):
    process = claude(SLOW_TO_END)
    client = int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(client, 0)


def test_a_second_session_does_not_lean_on_the_first(claude):
    first, second = claude(WAITING), claude(WAITING)
    urls = [process.stdout.readline().split()[0] for process in (first, second)]
    assert urls[0] != urls[1]
    first.send_signal(signal.SIGTERM)
    first.wait(WAIT)
    assert reachable(urls[1])


def test_the_gateway_of_a_session_is_nobody_elses(claude, env, tmp_path):
    process = claude(WAITING)
    assert re.match("http://", process.stdout.readline())
    status = [sys.executable, "-m", "toolbridge", "status"]
    found = subprocess.run(status, env=env, cwd=tmp_path, capture_output=True, check=False)
    assert found.returncode == 3


# ── what Claude Code is told of the model ──

SHOWN = 'echo "$ANTHROPIC_MODEL $CLAUDE_CODE_MAX_CONTEXT_TOKENS $ANTHROPIC_DEFAULT_OPUS_MODEL $@"'


async def test_the_real_model_and_its_window_are_set(claude, env):
    models = ollama(replay(), models=("qwen3:8b",))
    async with model_server(models) as server:
        env["OLLAMA_HOST"] = server.url
        process = claude(SHOWN, "--model", "claude-sonnet-4-5", "-p", "hi")
        out, error = await asyncio.to_thread(process.communicate, timeout=WAIT)
    assert out == "ollama/qwen3:8b 65536 ollama/qwen3:8b -p hi\n", error


def test_a_model_that_is_unknown_is_said_before_claude_code_starts(claude):
    process = claude("echo started", "--model", "antropic/claude-opus-5", "-p", "hi")
    out, error = process.communicate(timeout=WAIT)
    assert (process.returncode, out) == (1, "")
    assert "Did you mean anthropic/claude-opus-5?" in error


def test_where_keys_are_required_the_users_own_is_sent(claude, env, tmp_path):
    create = [sys.executable, "-m", "toolbridge", "key", "create", "alice"]
    made = subprocess.run(create, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    key = made.stdout.split()[0]
    _, error = claude("echo started").communicate(timeout=WAIT)
    assert "key" in error
    env["ANTHROPIC_AUTH_TOKEN"] = key
    out, error = claude('echo "$ANTHROPIC_AUTH_TOKEN"').communicate(timeout=WAIT)
    assert out == f"{key}\n", error
