"""`toolbridge probe` with a model server that solves every task."""

import asyncio
import json
import tomllib

import pytest
from tests.peers import Heard, Line, model_server, whole
from tests.probe_script import probe_script

from toolbridge.cli import main
from toolbridge.probe.tasks import TASKS

RULES = probe_script()


def answer_for(body: dict) -> str:
    """Return the scripted answer: constrained JSON where the request has an output schema."""
    last = json.dumps(body["messages"][-1], ensure_ascii=False)
    rule = next(rule for rule in RULES if rule["find"] in last)
    return rule["first"] + rule["answers"][-1 if "response_format" in body else 0]


async def chat(heard: Heard, line: Line) -> None:
    if not heard.path.endswith("/chat/completions"):
        await whole(line, {"error": {"message": "no such route"}}, 404)
        return
    text = answer_for(heard.json)
    await line.head(kind="text/event-stream")
    for start in range(0, len(text), 40):
        delta = {"choices": [{"index": 0, "delta": {"content": text[start : start + 40]}}]}
        await line.send(f"data: {json.dumps(delta)}\n\n")
    usage = {"prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109}
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    await line.send(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n")
    await line.end()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


async def probe(home, *args: str) -> int:
    async with model_server(chat) as server:
        config = home / "toolbridge.toml"
        if not config.exists():
            config.write_text(f'[providers.local]\napi = "openai_chat"\nurl = "{server.url}/v1"\n')
        return await asyncio.to_thread(
            main, ["probe", "local/tiny", "--config", str(config), *args]
        )


async def test_every_task_is_solved_in_every_mode(home, capsys):
    assert await probe(home, "--json") == 0
    attempts = json.loads(capsys.readouterr().out)["attempts"]
    assert [a for a in attempts if not a["right"]] == []
    assert len(attempts) == 3 * len(TASKS)
    assert {a.get("dialect") for a in attempts if a["mode"] == "prompt"} == {None, "hermes_json"}


async def test_two_cards_without_times_are_the_same(home, capsys):
    cards = []
    for name in ("a", "b"):
        flags = ("--tasks", "one-call,thinking", "--no-times", "--svg", str(home / name))
        assert await probe(home, *flags) == 0
        (home / "toolbridge.toml").unlink()
        cards.append((capsys.readouterr().out, (home / name).read_bytes()))
    assert cards[0] == cards[1]


async def test_the_best_mode_is_written_into_the_file(home, capsys):
    assert await probe(home, "--tasks", "one-call,schema", "--mode", "prompt", "--write") == 0
    assert "written to" in capsys.readouterr().out
    found = tomllib.loads((home / "toolbridge.toml").read_text())
    assert found["models"]["local/tiny"] == {"tool_mode": "prompt", "dialect": "hermes_json"}


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["demo", "--mode", "nativ"], "--mode: there is no tool mode 'nativ'; the modes are"),
        (["demo", "--tasks", "all"], "--tasks: there is no kind of task 'all'; the kinds are"),
        (["demo", "--max-tokens", "0"], "--max-tokens: must be at least 1"),
        (["demo", "--write"], "there is no configuration file to write to"),
        (["nobody/x"], "Ollama"),
    ],
)
def test_bad_input_is_named(home, monkeypatch, capsys, args, text):
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    assert main(["probe", *args]) == 1
    assert text in capsys.readouterr().err


def test_a_provider_that_does_not_answer_ends_the_probe(home, capsys):
    (home / "t.toml").write_text(
        '[providers.local]\napi = "openai_chat"\nurl = "http://127.0.0.1:1/v1"\nretries = 0\n'
    )
    assert main(["probe", "local/x", "--config", str(home / "t.toml")]) == 1
    assert "local" in capsys.readouterr().err
