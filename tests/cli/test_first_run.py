"""The first run, as a person meets it: files that were found, models that are missing, busy ports."""

import asyncio
import gc
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest
from tests.commands import run_command
from tests.peers import model_server, ollama, replay, whole

from toolbridge.cli.serve import listen, open_listeners
from toolbridge.config import Config
from toolbridge.core.errors import ConfigError
from toolbridge.server_settings import TlsConfig

SAID = {
    "message": {"role": "assistant", "content": "from Ollama"},
    "done": True,
    "done_reason": "stop",
}
TOOLBRIDGE = [sys.executable, "-m", "toolbridge"]


def run(env, *args, cwd) -> subprocess.CompletedProcess[str]:
    """Run a command in this process."""
    done = run_command(env, *args, cwd=cwd)
    return subprocess.CompletedProcess(
        args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def start(env, *args, cwd) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return subprocess.run(
        [*TOOLBRIDGE, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, timeout=30,
        cwd=cwd, check=False,
    )  # fmt: skip


@contextmanager
def serving(env, *args, cwd):
    """Run `toolbridge serve`; yield its URL and its banner."""
    process = subprocess.Popen(
        [*TOOLBRIDGE, "serve", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd, text=True
    )  # fmt: skip
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Stop with Ctrl-C" in line:
                break
        banner = "".join(lines)
        assert banner, process.stderr.read()
        yield re.search(r"http://\S+", banner)[0], banner
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20)
        print(said)  # shown when the test failed


# ── files that were found ──


def test_a_foreign_file_is_named_and_not_used(env, tmp_path):
    (tmp_path / "toolbridge.toml").write_text('[map]\ndefault = "evil/m"\n[providers.evil]\napi = "ollama"\nurl = "http://127.0.0.1:1"\n')  # fmt: skip
    with serving(env, "--port", "0", cwd=tmp_path) as (_, banner):
        pass
    assert "Configuration:  no configuration file" in banner
    assert "evil" not in banner
    shown = run(env, "models", cwd=tmp_path)
    assert "evil" not in shown.stdout
    assert f"toolbridge allow {tmp_path}/toolbridge.toml" in shown.stderr


def test_an_allowed_file_is_used_and_named(env, tmp_path):
    file = tmp_path / "toolbridge.toml"
    file.write_text('[map]\ndefault = "mine/m"\n[providers.mine]\napi = "ollama"\nurl = "http://127.0.0.1:1"\n')  # fmt: skip
    file.chmod(0o644)
    allowed = run(env, "allow", cwd=tmp_path)
    assert allowed.returncode == 0
    assert "provider mine: http://127.0.0.1:1" in allowed.stdout
    with serving(env, "--port", "0", cwd=tmp_path) as (_, banner):
        pass
    assert f"Configuration:  {file}" in banner
    assert "mine does not answer at http://127.0.0.1:1" in banner
    file.write_text(file.read_text() + "# changed\n")
    shown = run(env, "models", cwd=tmp_path)
    assert "mine/m" not in shown.stdout
    assert "it has changed since you allowed it" in shown.stderr
    assert run(env, "allow", "--forget", cwd=tmp_path).returncode == 0


def test_allow_says_what_is_missing_or_wrong(env, tmp_path):
    missing = run(env, "allow", cwd=tmp_path)
    assert missing.returncode == 1
    assert "toolbridge init" in missing.stderr
    (tmp_path / "toolbridge.toml").write_text("prot = 1")
    wrong = run(env, "allow", cwd=tmp_path)
    assert wrong.returncode == 1
    assert "did you mean `port`?" in wrong.stderr


def test_doctor_names_a_file_that_is_not_used(env, tmp_path):
    (tmp_path / "toolbridge.toml").write_text("port = 1")
    done = run(env, "doctor", cwd=tmp_path)
    assert "configuration: no configuration file" in done.stdout
    assert f"read it, then run `toolbridge allow {tmp_path}/toolbridge.toml`" in done.stdout


def test_the_money_of_a_foreign_file_is_not_spent(env, tmp_path):
    (tmp_path / "toolbridge.toml").write_text(
        '[providers.mine]\napi = "node"\n[providers.mine.node]\nmodel = "a/b:c"\ndeposit = "9"\n'
    )
    key = env | {"CLAUDE_BRIDGE_PRIVATE_KEY": "c3" * 32}
    done = run(key, "node", "serve", "--rpc-url", "http://127.0.0.1:1", cwd=tmp_path)
    assert done.returncode == 1
    assert "you have not allowed it" in done.stderr
    assert "no model is set" in done.stderr


# ── models ──


async def test_init_without_ollama_does_not_pin_the_demo_model(env, tmp_path):
    done = await asyncio.to_thread(run, env, "init", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "toolbridge.toml").read_text()
    assert "demo/" not in text
    assert "\ndefault" not in text
    async with model_server(ollama(replay(SAID), models=("qwen3:8b",))) as server:
        found = env | {"OLLAMA_HOST": server.url}
        listed = await asyncio.to_thread(run, found, "models", cwd=tmp_path)
    assert "qwen3:8b  →  ollama/qwen3:8b  (default)" in listed.stdout
    assert "toolbridge allow" not in listed.stderr


async def test_init_with_ollama_names_its_first_chat_model(env, tmp_path):
    models = ("nomic-embed-text:latest", "qwen3:8b")
    embeds = {"capabilities": None, "model_info": {}}
    async with model_server(ollama(replay(SAID), models=models, show=embeds)) as server:
        done = await asyncio.to_thread(run, env | {"OLLAMA_HOST": server.url}, "init", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '\ndefault = "ollama/qwen3:8b"\n' in (tmp_path / "toolbridge.toml").read_text()


async def test_a_model_that_the_provider_does_not_have_is_said_at_the_start(env, tmp_path):
    async with model_server(ollama(replay(SAID), models=("qwen3:8b",))) as server:
        found = env | {"OLLAMA_HOST": server.url, "MODEL_HAIKU": "ollama/qwen3"}

        def start():
            with serving(found, "--port=0", "--model=ollama/gemma3:4b", cwd=tmp_path) as (
                _,
                banner,
            ):
                return banner

        banner = await asyncio.to_thread(start)
    problems = [line for line in banner.splitlines() if "PROBLEM" in line]
    assert len(problems) == 2
    assert (
        "default: ollama has no model 'gemma3:4b'; fetch it with `ollama pull gemma3:4b`" in banner
    )
    assert "haiku: ollama has no model 'qwen3'" in banner


async def test_the_first_model_of_the_first_provider_with_one_serves_agents_names(env, tmp_path):
    async def answer(heard, line):
        rows = [{"id": "text-embed"}, {"id": "smol"}, {"id": "other"}]
        found = heard.path == "/v1/models"
        await whole(line, {"data": rows} if found else {}, 200 if found else 404)

    async with model_server(answer, probes=True) as server:
        config = tmp_path / "mine.toml"
        config.write_text(
            '[providers.openrouter]\nkey = "k"\n'  # a vendor, which is not asked
            f'[providers.box]\napi = "openai_chat"\nurl = "{server.url}"\n'
        )
        found = env | {"TOOLBRIDGE_CONFIG": str(config), "XAI_API_KEY": "k"}

        def start():
            with serving(found, "--port=0", cwd=tmp_path) as (_, banner):
                return banner

        names = ("gpt-4o", "claude-sonnet-4-5", "grok-4", "qwen3")
        banner = await asyncio.to_thread(start)
        shown = (await asyncio.to_thread(run, found, "doctor", *names, cwd=tmp_path)).stdout
    serves = "the first model of box; it serves the claude-…, gpt-… and gemini-… names that no other provider serves"  # fmt: skip
    assert f"  Model:          box/smol ({serves})" in banner
    assert f"default model: box/smol ({serves})" in shown
    assert "gpt-4o → box/smol" in shown
    assert "claude-sonnet-4-5 → box/smol" in shown
    assert "grok-4 → xai/grok-4" in shown
    assert "no model is called 'qwen3'" in shown


def test_a_default_without_its_key_is_said_at_the_start(env, tmp_path):
    with serving(env, "--port=0", "--model=openai/gpt-5", cwd=tmp_path) as (_, banner):
        pass
    assert "OPENAI_API_KEY is not set" in banner


def test_serve_with_the_demo_model_answers_to_every_name(env, tmp_path):
    with serving(env, "--port=0", "--model=demo", cwd=tmp_path) as (url, banner):
        body = b'{"model": "gpt-5", "input": "5 + 5"}'
        asked = urllib.request.Request(f"{url}/v1/responses", body)
        with urllib.request.urlopen(asked) as answer:
            assert b"5 + 5 = 10" in answer.read()
    assert "demo/toolbridge-demo (configured)" in banner
    assert "it answers every name" in banner


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("claude-opus-5", 0, "claude-opus-5 → demo/toolbridge-demo"),
        ("gpt-4o-mini", 1, "OPENAI_API_KEY"),
        ("antropic/claude-opus-5", 1, "Did you mean anthropic/claude-opus-5?"),
    ],
)
def test_doctor_shows_what_a_name_leads_to(env, tmp_path, name, status, words):
    done = run(env, "doctor", name, cwd=tmp_path)
    assert (done.returncode, words in done.stdout) == (status, True), done.stdout


def test_doctor_names_the_keys_that_are_set_and_asks_nobody(env, tmp_path):
    done = run(env | {"GROQ_API_KEY": "k"}, "doctor", cwd=tmp_path)
    assert "GROQ_API_KEY is set: `groq/MODEL` can be used" in done.stdout
    assert done.returncode == 0


def test_ask_for_an_unknown_model_says_which_there_are(env, tmp_path):
    done = run(env, "ask", "-m", "gpt-4o-mini", "hi", cwd=tmp_path)
    assert done.returncode == 1
    assert "OPENAI_API_KEY" in done.stderr
    assert "Traceback" not in done.stderr


# ── the port ──


def test_a_busy_port_is_said_in_one_line(env, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = start(env | {"TOOLBRIDGE_PORT": port}, "serve", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "another program uses the port; choose another with --port N" in done.stderr


def test_an_address_that_this_machine_does_not_have_is_said_with_its_settings():
    with pytest.raises(ConfigError) as caught:
        listen(Config(host="192.0.2.1", port=0))
    assert str(caught.value).startswith("cannot listen on 192.0.2.1:0 (")
    assert str(caught.value).endswith("; choose another address with --host and --port")


def test_a_busy_port_of_https_is_said_with_its_settings():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            listen(Config(port=port), "`tls.host` and `tls.port`")
    assert str(caught.value).startswith(f"cannot listen on 127.0.0.1:{port} (")
    assert str(caught.value).endswith("; choose another address with `tls.host` and `tls.port`")


def test_a_port_with_a_toolbridge_on_it_is_recognised(env, tmp_path):
    with serving(env, "--port", "0", cwd=tmp_path) as (url, _):
        port = url.rpartition(":")[2]
        done = start(env, "serve", "--port", port, cwd=tmp_path)
    assert done.returncode == 1
    assert (
        f"a gateway with the model demo/toolbridge-demo runs there; use it at {url}" in done.stderr
    )


def test_a_toolbridge_in_the_background_can_be_stopped(env, tmp_path):
    started = start(env, "serve", "--background", "--port", "0", cwd=tmp_path)
    try:
        port = re.search(r"http://\S+:(\d+)", started.stdout)[1]
        done = start(env, "serve", "--port", port, cwd=tmp_path)
    finally:
        run(env, "stop", cwd=tmp_path)
    assert done.returncode == 1
    assert "stop it with `toolbridge stop`" in done.stderr


@pytest.mark.filterwarnings("always::ResourceWarning")
def test_a_taken_tls_port_leaves_no_socket_open(recwarn):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        tls = TlsConfig(cert="cert.pem", port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match=r"tls\.port"):
            open_listeners(Config(port=0, tls=tls), None)
    gc.collect()
    assert [w for w in recwarn if "unclosed <socket" in str(w.message)] == []


def test_init_without_a_state_directory_says_that_the_file_is_written_and_not_allowed(
    env, tmp_path
):
    (tmp_path / "f").write_text("")
    done = run(env | {"XDG_STATE_HOME": str(tmp_path / "f")}, "init", cwd=tmp_path)
    assert done.returncode == 1
    assert (tmp_path / "toolbridge.toml").exists()
    assert "wrote toolbridge.toml, which is not allowed yet: cannot write" in done.stderr
    assert "run `toolbridge allow toolbridge.toml`" in done.stderr
