"""What the shell does to a command: pipes that close, streams that are missing, odd locales."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

TOOLBRIDGE = shlex.join([sys.executable, "-m", "toolbridge"])
LINE = '{"model":"m","message":{"role":"assistant","content":"abc"},"done":false}'


def shell(env, script: str, cwd) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", script.replace("toolbridge", TOOLBRIDGE, 1)], capture_output=True, env=env,
        timeout=30, cwd=cwd, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["--help", "models", "doctor", "translate --help"])
def test_a_reader_that_leaves_is_not_worth_a_word(env, tmp_path, command, unbuffered):
    script = f"toolbridge {command} | true; exit ${{PIPESTATUS[0]}}"
    done = shell(env | {"PYTHONUNBUFFERED": unbuffered}, script, tmp_path)
    assert done.stderr == b""
    assert done.returncode in {0, 141}  # it may have been done before


def test_a_filter_ends_when_its_reader_does(env, tmp_path):
    (tmp_path / "long.ndjson").write_text(f"{LINE}\n" * 20_000)
    script = "toolbridge translate --from ollama --to anthropic < long.ndjson | head -1"
    done = shell(env, f"{script}; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert done.stdout == b"event: message_start\n"
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("translate --from ollama --to anthropic <&-", 1, b"event: error"),
        ("ask what is 12*7 <&-", 0, b"84"),
        ("heal <&-", 0, b'"value"'),
        ("read <&-", 0, b'"calls":[]'),
    ],
)
def test_a_closed_stdin_is_an_empty_one(env, tmp_path, command, status, words):
    done = shell(env, f"toolbridge {command}", tmp_path)
    assert done.returncode == status, done.stderr
    assert words in done.stdout
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_that_knows_few_characters_gets_the_rest_as_marks(env, tmp_path, encoding):
    done = shell(env | {"PYTHONIOENCODING": encoding}, "toolbridge models", tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"demo/toolbridge-demo" in done.stdout


def test_bytes_that_are_no_text_are_asked_about_all_the_same(env, tmp_path):
    done = shell(env, "toolbridge ask repeat: < <(printf 'a\\xffb')", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a\ufffdb" in done.stdout.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "command",
    ["models > /dev/full", "heal --schema /none < /dev/null", "init --path /none/toolbridge.toml"],
)
def test_a_file_that_cannot_be_used_is_said_in_one_line(env, tmp_path, command):
    done = shell(env, f"toolbridge {command}", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(b"toolbridge: ")
    assert len(done.stderr.splitlines()) == 1
    assert b"Errno" not in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("home", ["/dev/null", "/proc"])
def test_a_home_that_cannot_be_written_is_no_reason_to_fail(env, tmp_path, home):
    env = {"PATH": env["PATH"], "HOME": home, "OLLAMA_HOST": env["OLLAMA_HOST"]}
    assert shell(env, "toolbridge status", tmp_path).returncode == 3
    assert shell(env, "toolbridge ask hello", tmp_path).returncode == 0
    done = shell(env, "toolbridge serve --background --port 0", tmp_path)
    assert done.returncode == 1
    assert b"set XDG_STATE_HOME" in done.stderr
