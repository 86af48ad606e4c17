"""Claude Code, started by toolbridge: its arguments, its signals, its gateway."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from tests.peers import model_server, ollama, replay

from toolbridge.cli.claude import split
from toolbridge.cli.claude_prices import installed_version, price_arguments, rates_for, rates_of
from toolbridge.config import Config, ModelConfig, RatesConfig

TOOLBRIDGE = [sys.executable, "-m", "toolbridge", "claude"]


@pytest.mark.parametrize(
    ("given", "ours", "theirs"),
    [
        ([], [], []),
        (["-p", "hi"], [], ["-p", "hi"]),
        (["--", "-p", "hi"], [], ["-p", "hi"]),
        (["--resume"], [], ["--resume"]),
        (["--model", "opus", "-p", "x y"], ["--model", "opus"], ["-p", "x y"]),
        (["--config=a", "-c"], ["--config=a"], ["-c"]),
        (["hi", "--model", "x"], [], ["hi", "--model", "x"]),
        (["-p", "--", "--model"], [], ["-p", "--", "--model"]),
        (["--help"], ["--help"], []),
        (["--", "--help"], [], ["--help"]),
    ],
)
def test_what_is_not_ours_is_claude_codes(given, ours, theirs):
    assert split(given) == ([*ours, "--", *theirs] if theirs else ours)


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
    out, _ = claude('echo "$@"', "-p", "say hi", "--verbose").communicate(timeout=20)
    assert out == "-p say hi --verbose\n"


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -TERM $$", 143)])
def test_the_exit_status_is_the_clients(claude, script, status):
    assert claude(script).wait(20) == status


def test_a_client_that_does_not_start_is_said_in_one_line(claude, tmp_path):
    for command in ("/none", str(tmp_path)):
        process = claude("exit", "--claude", command)
        _, error = process.communicate(timeout=20)
        assert process.returncode == 1
        assert "was not found" in error


def reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1):
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
    assert process.wait(20) == 130


def test_ending_it_ends_what_it_has_started(claude):
    process = claude(WAITING)
    url, client, *_ = process.stdout.readline().split()
    assert reachable(url)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143
    assert not reachable(url)
    with pytest.raises(ProcessLookupError):
        os.kill(int(client), 0)


def test_a_second_session_does_not_lean_on_the_first(claude):
    first, second = claude(WAITING), claude(WAITING)
    urls = [process.stdout.readline().split()[0] for process in (first, second)]
    assert urls[0] != urls[1]
    first.send_signal(signal.SIGTERM)
    first.wait(20)
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
        out, error = await asyncio.to_thread(process.communicate, timeout=30)
    assert out == "ollama/qwen3:8b 65536 ollama/qwen3:8b -p hi\n", error


def test_a_model_that_is_unknown_is_said_before_claude_code_starts(claude):
    process = claude("echo started", "--model", "antropic/claude-opus-5", "-p", "hi")
    out, error = process.communicate(timeout=20)
    assert (process.returncode, out) == (1, "")
    assert "Did you mean anthropic/claude-opus-5?" in error


def test_where_keys_are_required_the_users_own_is_sent(claude, env, tmp_path):
    create = [sys.executable, "-m", "toolbridge", "key", "create", "alice"]
    made = subprocess.run(create, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    key = made.stdout.split()[0]
    _, error = claude("echo started").communicate(timeout=20)
    assert "key" in error
    env["ANTHROPIC_AUTH_TOKEN"] = key
    out, error = claude('echo "$ANTHROPIC_AUTH_TOKEN"').communicate(timeout=20)
    assert out == f"{key}\n", error


def installed(folder, version="2.1.325"):
    """Return a command that is laid out as npm lays out Claude Code."""
    package = folder / "node_modules" / "@anthropic-ai" / "claude-code"
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text(
        json.dumps({"name": "@anthropic-ai/claude-code", "version": version})
    )
    (package / "bin" / "claude.exe").write_text("")
    link = folder / "claude-link"
    link.symlink_to(package / "bin" / "claude.exe")
    return str(link)


def test_a_free_model_is_shown_as_free(tmp_path, monkeypatch):
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    rates = rates_for(Config(), {"demo/m": "demo/m"})
    arguments, env = price_arguments(installed(tmp_path), ["-p"], rates)
    rows = json.loads(arguments[1])["modelPricing"]["overrides"]
    assert arguments[0] == "--managed-settings"
    assert rows == {"demo/m": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
    assert env == {"CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "1"}


@pytest.mark.parametrize(
    ("version", "given", "address"),
    [
        ("2.1.0", [], "demo/m"),
        ("2.1.325", ["--managed-settings", "{}"], "demo/m"),
        ("2.1.325", ["--managed-settings={}"], "demo/m"),
        ("2.1.325", [], "anthropic/claude-opus-5"),
        ("2.1.325", [], "nowhere/m"),
        ("2.1.325", [], "groq/a-model-that-nobody-prices"),
    ],
)
def test_prices_are_left_alone_where_they_cannot_be_given(tmp_path, version, given, address):
    command = installed(tmp_path, version)
    assert price_arguments(command, given, rates_for(Config(), {"m": address})) == ([], {})


def test_prices_come_from_the_configuration_then_from_the_list():
    config = Config(models={"groq/m": ModelConfig(rates=RatesConfig(1.0, 2.0))})
    assert rates_of(config, "groq/m") == RatesConfig(1.0, 2.0)
    listed = rates_of(Config(), "openai/gpt-4o-mini")
    assert listed is not None
    assert listed.output > listed.input > 0


def test_the_version_is_read_without_running_anything(tmp_path):
    assert installed_version(Path(installed(tmp_path))) == (2, 1, 325)
    native = tmp_path / "versions" / "2.1.330"
    native.parent.mkdir()
    native.write_text("")
    assert installed_version(native) == (2, 1, 330)
    assert installed_version(tmp_path / "claude") == (0,)
