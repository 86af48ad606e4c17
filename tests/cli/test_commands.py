"""The command line as a person uses it: what serves, in a process of its own, the rest in this one."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from tests.commands import run_command as run
from tests.peers import model_server, ollama, whole

from toolbridge.cli import COMMANDS, main
from toolbridge.cli.claude import ServedModel, environment
from toolbridge.cli.serve import StartReport, banner
from toolbridge.config import Config

TOOLBRIDGE = [sys.executable, "-m", "toolbridge"]
RECORDED = Path(__file__).parents[1] / "recorded"


def start(env, *args, given: bytes = b"", cwd=None) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    return subprocess.run(
        [*TOOLBRIDGE, *args], input=given, capture_output=True, env=env, timeout=30, cwd=cwd, check=False
    )  # fmt: skip


def test_help_lists_every_command(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)


def test_a_wrong_command_names_the_nearest(capsys):
    assert main(["serv"]) == 2
    assert "did you mean `serve`?" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    assert len(capsys.readouterr().out) > 100


@pytest.mark.req("PX-22", "CB-28")
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("reject", "rejected (400)"),
        ("drop", "answered without thinking"),
        ("auto", "rejected (400)"),
    ],
)
def test_the_banner_says_how_to_use_it_and_what_thinks(mode, words):
    start = StartReport("http://127.0.0.1:3456", "demo/toolbridge-demo", "found")
    shown = banner(Config(thinking=mode), start)
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:3456" in shown
    assert "Thinking-capable models: qwen3, deepseek-r1, magistral, nemotron, glm4, qwq" in shown
    line = next(line for line in shown.split("\n") if "Thinking requests" in line)
    assert words in line
    assert "ollama pull" in shown
    assert "ANTHROPIC_MODEL" not in shown  # an Ollama may still take the demo model's place


def test_the_banners_recipe_names_the_real_model_and_its_window(tmp_path):
    start = StartReport(
        "http://127.0.0.1:1", "ollama/qwen3:8b", "found", 40960, tmp_path / "a.toml"
    )
    shown = banner(Config(), start)
    assert "export ANTHROPIC_MODEL=ollama/qwen3:8b\n" in shown
    assert "export CLAUDE_CODE_MAX_CONTEXT_TOKENS=40960\n" in shown
    assert "export CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1\n" in shown
    assert f"Configuration:  {tmp_path / 'a.toml'}\n" in shown


@pytest.mark.req("CB-28")
def test_serve_prints_where_it_is_and_stops_at_a_signal(env, tmp_path):
    process = subprocess.Popen(
        [*TOOLBRIDGE, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=env, cwd=tmp_path, text=True,
    )  # fmt: skip
    try:
        first = process.stdout.readline()
        url = re.search(r"http://\S+", first)[0]
        with urllib.request.urlopen(url + "/health") as answer:
            assert json.load(answer)["status"] == "ok"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) in {0, -signal.SIGTERM}
    finally:
        process.kill()
        process.communicate()


def test_a_port_that_is_taken_is_said_when_it_was_asked_for(env, tmp_path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = start(env, "serve", "--port", str(port), cwd=tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.decode().splitlines()) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr.decode()
    assert "--port" in done.stderr.decode()


@pytest.mark.req("PX-X7")
def test_a_gateway_in_the_background_is_found_and_stopped(env, tmp_path):
    assert run(env, "status").returncode == 3
    started = start(env, "serve", "--background", "--port", "0", cwd=tmp_path)
    try:
        assert started.returncode == 0, started.stderr
        url = re.search(r"http://\S+", started.stdout.decode())[0]
        found = run(env, "status")
        assert found.returncode == 0
        assert url in found.stdout.decode()
        assert b"already runs" in start(env, "serve", "--background", cwd=tmp_path).stdout
        assert (tmp_path / "state" / "toolbridge" / "toolbridge.log").exists()
    finally:
        stopped = run(env, "stop")
    assert b"stopped" in stopped.stdout
    assert run(env, "status").returncode == 3


@pytest.mark.req("PX-X7")
def test_a_stale_pid_is_no_running_gateway(env, tmp_path):
    state = tmp_path / "state" / "toolbridge"
    state.mkdir(parents=True)
    (state / "toolbridge.pid").write_text('{"pid": 999999, "url": "http://127.0.0.1:1"}')
    assert run(env, "status").returncode == 3
    assert b"no gateway runs" in run(env, "stop").stdout
    started = start(env, "serve", "--background", "--port", "0", "--model", "demo", cwd=tmp_path)
    try:
        assert started.returncode == 0, started.stderr
        assert run(env, "status").returncode == 0
    finally:
        assert b"stopped (pid" in run(env, "stop").stdout


def test_a_background_does_not_start_without_the_file_of_its_directory(env, tmp_path):
    (tmp_path / "toolbridge.toml").write_text('[map]\ndefault = "demo/demo"\n')
    done = start(env, "serve", "--background", "--port", "0", cwd=tmp_path)
    try:
        assert done.returncode == 1
        assert f"toolbridge allow {tmp_path / 'toolbridge.toml'}" in done.stderr.decode()
        assert b"--config FILE" in done.stderr
        assert run(env, "status").returncode == 3
    finally:
        run(env, "stop")


def test_a_background_that_cannot_start_shows_why(env, tmp_path):
    (tmp_path / "bad.toml").write_text("prot = 1")
    done = start(env, "serve", "--background", "--config", str(tmp_path / "bad.toml"))
    assert done.returncode == 1
    assert b"did you mean `port`?" in done.stderr


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes().partition(b"\r\n\r\n")[2] or (
        RECORDED / name
    ).read_bytes().partition(b"\n\n")[2]


def test_translate_is_a_filter(env):
    stream = recorded("ollama/jinja/chat_thinktool_stream.txt")
    done = start(env, "translate", "--from", "ollama", "--to", "anthropic", given=stream)
    assert done.returncode == 0
    assert done.stdout.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert b'"stop_reason":"tool_use"' in done.stdout


def test_translate_gives_the_same_for_every_cut(env):
    stream = recorded("ollama/jinja/chat_thinktool_stream.txt")
    found = set()
    for size in (1, 7, 1000, len(stream)):
        process = subprocess.Popen(
            [*TOOLBRIDGE, "translate", "--from", "ollama", "--to", "anthropic", "--model", "m"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
        )  # fmt: skip
        for start in range(0, len(stream), size):
            process.stdin.write(stream[start : start + size])
            process.stdin.flush()
        out, _ = process.communicate(timeout=30)
        text = re.sub(rb'"(msg|toolu)_[0-9a-f]{16}"', rb'"id"', out)
        deltas = re.sub(rb"event: (ping|content_block_delta)\n.*\n\n", b"", text)
        found.add(deltas)
    assert len(found) == 1


def test_translate_ends_a_cut_input_with_an_error_and_status_one(env):
    cut = recorded("ollama/jinja/chat_stream.txt")[:300]
    done = run(env, "translate", "--from", "ollama", "--to", "anthropic", given=cut)
    assert done.returncode == 1
    assert done.stdout.rstrip().split(b"\n")[-2] == b"event: error"
    assert b"message_stop" not in done.stdout


def test_translate_reports_a_stream_that_is_cut_inside_its_usage(env):
    chunk = (
        'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}\n\n'
    )
    stream = chunk % ('"content":"Hi"', "null") + chunk % ("", '"stop"')
    cut = (stream + 'data: {"id":"c","choices":[],"usage":{"prompt_tok').encode()
    done = run(env, "translate", "--from", "openai_chat", "--to", "anthropic", given=cut)
    assert done.returncode == 1
    assert b"middle of an event" in done.stderr
    assert b"message_stop" not in done.stdout


def test_translate_to_chat_keeps_the_usage(env):
    stream = recorded("ollama/jinja/chat_thinktool_stream.txt")
    done = run(env, "translate", "--from", "ollama", "--to", "openai_chat", given=stream)
    chunks = [json.loads(line[6:]) for line in done.stdout.splitlines() if line[6:7] == b"{"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert done.stderr == b""


def test_translate_says_what_an_answer_lost(env):
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    movie = {"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}}
    candidate = {"content": {"role": "model", "parts": [code, movie, {"text": "Done."}]}}
    given = json.dumps({"candidates": [candidate | {"finishReason": "STOP"}]}).encode()
    done = run(env, "translate", "--from", "gemini", "--to", "anthropic", given=given)
    assert done.returncode == 0
    lost = done.stderr.decode().splitlines()
    assert "lost: answer.video: only gemini has such a part" in lost
    assert b"print(1)" in done.stdout
    back = run(env, "translate", "--from", "gemini", "--to", "gemini", given=given)
    assert back.stderr == b""


def test_translate_turns_requests_too(env):
    asked = {
        "model": "m",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": "hi"}],
        "top_k": 3,
    }
    given = json.dumps(asked).encode()
    done = run(env, "translate", "--request", "--from", "anthropic", "--to", "ollama", given=given)
    body = json.loads(done.stdout)
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert body["options"] == {"num_predict": 5, "top_k": 3}


@pytest.mark.req("PX-25", "PX-26", "PX-27", "PX-28")
@pytest.mark.parametrize(
    ("text", "value", "status"),
    [
        ('{"command":"ls"}', {"command": "ls"}, 0),
        ('{\\"command\\":\\"ls\\"}', {"command": "ls"}, 0),
        ("not-json", {"raw": "not-json"}, 1),
    ],
)
def test_heal_mends_text_from_stdin(env, text, value, status):
    done = run(env, "heal", given=text.encode())
    assert done.returncode == status
    assert json.loads(done.stdout)["value"] == value


def test_read_finds_calls_in_text(env, tmp_path):
    tools = tmp_path / "tools.json"
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools.write_text(
        json.dumps([{"type": "function", "function": {"name": "w", "parameters": schema}}])
    )
    text = b'<think>hm</think>Sure.<tool_call>{"name":"w","arguments":{"city":"Paris"}}</tool_call>'
    found = json.loads(run(env, "read", "--tools", str(tools), given=text).stdout)
    assert (found["content"].strip(), found["reasoning"].strip()) == ("Sure.", "hm")
    assert [(c["name"], c["arguments"]) for c in found["calls"]] == [("w", {"city": "Paris"})]


def test_read_says_what_is_wrong_with_the_tools(env, tmp_path):
    tools = tmp_path / "tools.json"
    tools.write_text('[{"nam": "x"}]')
    done = run(env, "read", "--tools", str(tools), given=b"x")
    assert done.returncode == 1
    assert b"a tool needs a `name`" in done.stderr


def test_ask_answers_in_the_terminal(env, tmp_path):
    done = run(env, "ask", "what", "is", "12*7", cwd=tmp_path)
    assert done.returncode == 0
    assert b"84" in done.stdout
    events = run(env, "ask", "--json", "hello", cwd=tmp_path).stdout.splitlines()
    assert [json.loads(events[0])["type"], json.loads(events[-1])["type"]] == [
        "started",
        "finished",
    ]


def test_ask_without_a_question_says_so(env, tmp_path):
    done = run(env, "ask", cwd=tmp_path)
    assert done.returncode == 1
    assert b"the question is missing" in done.stderr


def test_models_lists_what_answers(env, tmp_path):
    assert b"demo/toolbridge-demo" in run(env, "models", cwd=tmp_path).stdout


@pytest.mark.req("PX-X8")
def test_init_writes_a_file_that_doctor_likes(env, tmp_path):
    assert run(env, "init", cwd=tmp_path).returncode == 0
    assert run(env, "init", cwd=tmp_path).returncode == 1
    assert run(env, "init", "--force", cwd=tmp_path).returncode == 0
    done = run(env, "doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert f"configuration: {tmp_path / 'toolbridge.toml'}" in done.stdout.decode()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", "did you mean `port`?"),
        ('host = "0.0.0.0"', "without a key"),
        ('[providers.x]\napi = "smoke"\nurl = "http://x"', "no API is called 'smoke'"),
        ('[providers.x]\nurl = "http://x"', "needs `api`"),
        ('[providers.x]\napi = "anthropic"', "needs `url`"),
        ('[providers.x]\napi = "anthropic"\nurl = "127.0.0.1:18400"', '`url` needs a scheme, for example url = "http://127.0.0.1:18400"'),
        ('[providers.x]\napi = "anthropic"\nurl = "http://"', "`url` must be the URL of a server"),
        ('[providers.deepseak]\nkey = "k"', "needs `api`, one of"),
        ('[providers.deepseak]\nkey = "k"', "did you mean [providers.deepseek]?"),
        ('[models."opnai/m"]\nwindow = 9', "did you mean 'openai'? A model"),
        ('[map]\ndefault = "ollama/m"\n[providers.ollama]\nkey = "$NOT_SET"', "$NOT_SET is not set"),
        ('[models.m]\ndialect = "hermes_jsn"', "models.m.dialect: there is no dialect 'hermes_jsn'; did you mean 'hermes_json'?"),
        ("[providers.groq.quirks]\nstroe = true", "providers.groq: quirks.stroe: there is no quirk 'stroe'; did you mean `store`?"),
        ('key = "$NOT_SET"', "key: the variable $NOT_SET is not set"),
        ('[map]\ndefault = "ollama/m"', "Ollama at 127.0.0.1:1 refused the connection"),
        ('[map]\ndefault = "opnai/m"', "map.default: there is no provider 'opnai'; did you mean 'openai'?"),
        ('[models."opnai/m"]\nwindow = 9000', "models.opnai/m: there is no provider 'opnai'; did you mean 'openai'?"),
        ('[models."typo/x"]\nwindow = 9000\n[providers.mine]\napi = "ollama"\nurl = "http://127.0.0.1:1"', "there is no provider 'typo'; providers are mine, anthropic"),
        ('[map]\ndefault = "openai/m"', "openai needs a key, and $OPENAI_API_KEY is not set"),
        ('[providers.x]\napi = "ollama"\nurl = "127.0.0.1:1"', "providers.x: `url` needs a scheme"),
        ('[providers.x]\napi = "ollama"\nurl = "http://127.0.0.1:1"', "there is no default model"),
    ],
)  # fmt: skip
def test_doctor_finds_what_is_wrong(env, tmp_path, configure, text, words):
    configure(text)
    done = run(env, "doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert words in done.stdout.decode()


def test_doctor_names_a_wrong_variable(env, tmp_path, configure):
    configure("port = 3000")
    done = run(env | {"TOOLBRIDGE_PORT": "abc"}, "doctor", cwd=tmp_path)
    assert "configuration: TOOLBRIDGE_PORT: must be a port number" in done.stdout.decode()
    assert "→ correct the variable" in done.stdout.decode()


def test_a_model_of_local_may_have_settings_without_it(env, tmp_path, configure):
    configure('[models."local/qwen"]\nwindow = 9000')
    assert run(env, "models", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("home", "words"),
    [
        ("/dev/null", "BAD   the state directory /dev/null/toolbridge cannot be used ("),
        ("", "ok    store: "),
    ],
)
def test_doctor_says_where_values_are_kept(env, tmp_path, home, words):
    done = run(env | ({"XDG_STATE_HOME": home} if home else {}), "doctor", cwd=tmp_path)
    assert words in done.stdout.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_key_that_cannot_be_printed_is_not_created(env, tmp_path):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "toolbridge", "key", "create", "zed"],
            env=env, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert b"there are no keys" in run(env, "key", "list", cwd=tmp_path).stdout


def test_claude_code_gets_the_address_the_window_and_no_other_key():
    users = {"ANTHROPIC_API_KEY": "sk-real", "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "5", "X": "y"}
    served = ServedModel("ollama/qwen3:8b", 65536)
    found = environment(users, "http://127.0.0.1:1", "k", served, {"opus": "groq/m"})
    assert found["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert found["ANTHROPIC_AUTH_TOKEN"] == "k"
    assert found["ANTHROPIC_API_KEY"] == ""
    assert found["ANTHROPIC_MODEL"] == "ollama/qwen3:8b"
    assert found["ANTHROPIC_DEFAULT_OPUS_MODEL"] == "groq/m"
    assert found["CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY"] == "1"
    assert found["CLAUDE_CODE_DISABLE_1M_CONTEXT"] == "1"
    assert found["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "5"
    assert found["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == "100000"
    assert found["X"] == "y"


def test_anthropics_own_models_keep_their_names():
    assert ServedModel("anthropic/claude-opus-5").name == "claude-opus-5"
    assert (
        ServedModel("openrouter/anthropic/claude-opus-5").name
        == "openrouter/anthropic/claude-opus-5"
    )


async def test_doctor_asks_each_place_that_a_name_leads_to(env, tmp_path, configure):
    refusing = partial(whole, body={"error": "no"}, status=401)

    async def other(_, line):
        await refusing(line)

    async with model_server(ollama(other)) as good, model_server(other, probes=True) as strict:
        configure(
            f'[map]\ndefault = "ollama/tiny"\nopus = "x/m"\n'
            f'[providers.ollama]\nurl = "{good.url}"\n'
            f'[providers.x]\napi = "openai_chat"\nurl = "{strict.url}"\nkey = "k"\n'
            'counting = "chars4"\n'
        )
        done = await asyncio.to_thread(run, env, "doctor", cwd=tmp_path)
    shown = done.stdout.decode()
    assert f"ok    ollama answers at {good.url}" in shown
    assert "BAD   x rejects the key (401)" in shown
    assert "default → ollama/tiny, 65536 tokens" in shown
    assert "opus → x/m, capabilities: unknown, tokens counted by chars4" in shown
    assert done.returncode == 1
    assert strict.heard[0].headers["authorization"] == "Bearer k"


def test_claude_starts_a_gateway_runs_the_client_and_stops_it(env, tmp_path):
    client = tmp_path / "claude"
    client.write_text(
        "#!/bin/sh\n"
        'echo "$ANTHROPIC_BASE_URL $ANTHROPIC_MODEL $CLAUDE_CODE_MAX_CONTEXT_TOKENS $1 $2"\n'
        "exit 7\n"
    )
    client.chmod(0o755)
    done = start(env, "claude", "--claude", str(client), "--", "-p", "hi", cwd=tmp_path)
    assert done.returncode == 7
    url, model, window, *args = done.stdout.decode().split()
    assert (model, window, args) == ("demo/toolbridge-demo", "200000", ["-p", "hi"])
    time.sleep(0.1)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url + "/health", timeout=1)


def test_claude_without_claude_code_says_how_to_get_it(env, tmp_path):
    done = run(env | {"PATH": str(tmp_path)}, "claude")
    assert done.returncode == 1
    assert b"npm install" in done.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("usage", "--since", "7x"), "--since: must be a duration"),
        (("runs", "-n", "-1"), "-n/--limit: must be at least 1"),
        (("serve", "--workers", "0"), "the command line: workers: expected `int` >= 1"),
        (("key", "create", "bob", "--tokens", "5/hour"), "--tokens: must be a number and a window"),
        (("conform",), "give either the URL of a gateway or --self"),
        (("conform", "http://127.0.0.1:1"), "--api: give the API of the client"),
        (("serve", "--port", "x"), "invalid int value: 'x'"),
    ],
)
def test_a_wrong_value_on_the_command_line_has_the_status_2(env, tmp_path, command, words):
    done = run(env, *command, cwd=tmp_path)
    assert words in done.stderr.decode()
    assert done.returncode == 2
