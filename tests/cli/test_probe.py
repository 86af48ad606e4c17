"""`toolbridge probe` with a model server that solves every task."""

import asyncio
import json
import tomllib
from collections import Counter

import pytest
from tests.peers import Answer, Heard, Line, model_server, whole
from tests.probe_script import probe_script

from toolbridge.cli import main
from toolbridge.config_file import choose
from toolbridge.probe.tasks import TASKS

RULES = probe_script()


def answer_for(body: dict) -> str:
    """Return the scripted answer: constrained JSON where the request has an output schema."""
    last = json.dumps(body["messages"][-1], ensure_ascii=False)
    rule = next(rule for rule in RULES if rule["find"] in last)
    return rule["first"] + rule["answers"][-1 if "response_format" in body else 0]


async def refuse(line: Line, status: int, text: str, **error: str) -> None:
    await whole(line, {"error": {"message": text, **error}}, status)


async def without_tools(heard: Heard, line: Line) -> None:
    """Reject native tools, as Ollama does for a model whose template has none."""
    if heard.body and heard.json.get("tools"):
        await refuse(line, 400, "tiny does not support tools")
    else:
        await chat(heard, line)


async def without_schemas(heard: Heard, line: Line) -> None:
    if heard.body and heard.json.get("response_format"):
        await refuse(line, 400, "response_format is not supported", param="response_format")
    else:
        await chat(heard, line)


async def without_parser(heard: Heard, line: Line) -> None:
    """Fail to parse every call of native tools, and hide what the model wrote."""
    if heard.body and heard.json.get("tools"):
        await refuse(line, 500, "Failed to parse tool call arguments as JSON")
    else:
        await chat(heard, line)


async def web_page(_: Heard, line: Line) -> None:
    await line.head(kind="text/html")
    await line.send("<!doctype html><html><body>Welcome to nginx!</body></html>")
    await line.end()


async def no_credit(_: Heard, line: Line) -> None:
    await refuse(line, 429, "You exceeded your current quota", code="insufficient_quota")


async def wrong_key(_: Heard, line: Line) -> None:
    await refuse(line, 401, "Incorrect API key provided")


async def always_wrong(_: Heard, line: Line) -> None:
    await line.head(kind="text/event-stream")
    delta = {"choices": [{"index": 0, "delta": {"content": "?"}, "finish_reason": "stop"}]}
    await line.send(f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n")
    await line.end()


def then(number: int, first: Answer, later: Answer) -> Answer:
    """Return a server's answer that is `first` for the first `number` requests, then `later`."""
    left = iter(range(number))

    async def answer(heard: Heard, line: Line) -> None:
        await (later if next(left, None) is None else first)(heard, line)

    return answer


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


async def probe(
    home, *args: str, upstream: Answer = chat, more: str = "", heard: list[Heard] | None = None
) -> int:
    async with model_server(upstream) as server:
        server.heard = server.heard if heard is None else heard
        config = home / "toolbridge.toml"
        if not config.exists():
            provider = f'[providers.local]\napi = "openai_chat"\nurl = "{server.url}/v1"\n'
            config.write_text(f"{provider}{more}")
        return await asyncio.to_thread(
            main, ["probe", "local/tiny", "--config", str(config), *args]
        )


def right_by_mode(shown: str) -> dict[str, int]:
    attempts = json.loads(shown)["attempts"]
    right = Counter(a["mode"] for a in attempts if a["right"])
    return {mode: right[mode] for mode in ("native", "prompt", "constrained")}


async def test_every_task_is_solved_in_every_mode(home, capsys):
    assert await probe(home, "--json") == 0
    attempts = json.loads(capsys.readouterr().out)["attempts"]
    assert [a for a in attempts if not a["right"]] == []
    assert len(attempts) == 3 * len(TASKS)
    assert {a.get("dialect") for a in attempts if a["mode"] == "prompt"} == {None, "hermes_json"}


@pytest.mark.parametrize(
    ("upstream", "more", "right", "why"),
    [
        (without_tools, "", {"native": 0, "prompt": 3, "constrained": 3}, "provider rejects tools"),
        (without_parser, "", {"native": 0, "prompt": 3, "constrained": 3}, "could not parse"),
        (
            without_schemas,
            "",
            {"native": 3, "prompt": 3, "constrained": 0},
            "rejects the constraint",
        ),
        (chat, 'constraint = ""\n', {"native": 3, "prompt": 3, "constrained": 0}, "no constraint"),
        (
            chat,
            '[models."local/tiny"]\ntools = false\n',
            {"native": 0, "prompt": 3, "constrained": 3},
            "no native tools",
        ),
    ],
)
async def test_a_result_of_another_mode_is_not_counted(home, capsys, upstream, more, right, why):
    flags = ("--json", "--tasks", "one-call")
    assert await probe(home, *flags, upstream=upstream, more=more) == 0
    shown = capsys.readouterr().out
    assert right_by_mode(shown) == right
    wrong = [a["why"] for a in json.loads(shown)["attempts"] if not a["right"]]
    assert [text for text in wrong if why not in text] == []


async def test_a_learned_correction_does_not_pass_for_a_constraint(home, capsys):
    """The schema tasks of `native` teach the router to leave out `response_format`."""
    assert await probe(home, "--json", "--tasks", "schema", upstream=without_schemas) == 0
    assert right_by_mode(capsys.readouterr().out) == {"native": 3, "prompt": 3, "constrained": 0}


async def test_the_best_mode_is_written_into_an_inline_table(home):
    flags = ("--tasks", "one-call", "--mode", "constrained", "--write")
    more = '[models]\n"local/tiny" = { window = 9000 }  # mine\n'
    assert await probe(home, *flags, more=more) == 0
    written = '"local/tiny" = { window = 9000, tool_mode = "constrained" }  # mine\n'
    assert (home / "toolbridge.toml").read_text().endswith(f"[models]\n{written}")


async def test_the_best_mode_of_a_provider_that_rejects_tools_is_written(home, capsys):
    assert await probe(home, "--tasks", "one-call", "--write", upstream=without_tools) == 0
    shown = capsys.readouterr().out
    assert "best mode: prompt" in shown
    assert "no right answer in the mode native: its provider rejects tools: local: tiny" in shown
    found = tomllib.loads((home / "toolbridge.toml").read_text())
    assert found["models"]["local/tiny"]["tool_mode"] == "prompt"


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
        (["nobody/x"], "no model is called 'nobody/x'"),
    ],
)
def test_bad_input_is_named(home, monkeypatch, capsys, args, text):
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    assert main(["probe", *args]) == (2 if text.startswith("--") else 1)
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "hint"),
    [(("--mode", "nativ"), "native"), (("--tasks", "long,one-cal"), "one-call")],
)
def test_a_misspelled_choice_gets_the_nearest_one(home, capsys, args, hint):
    assert main(["probe", "demo", *args]) == 2
    assert f"did you mean `{hint}`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("upstream", "reason"),
    [(web_page, "web page: Welcome to nginx!"), (no_credit, "quota"), (wrong_key, "API key")],
)
async def test_a_provider_that_cannot_answer_ends_the_probe_at_once(home, capsys, upstream, reason):
    heard: list[Heard] = []
    flags = ("--write", "--svg", str(home / "card.svg"))
    assert await probe(home, *flags, upstream=upstream, more="retries = 0\n", heard=heard) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert reason in shown.err
    assert len(heard) == 1
    assert "tool_mode" not in (home / "toolbridge.toml").read_text()
    assert not (home / "card.svg").exists()


async def test_a_probe_that_is_stopped_prints_what_it_has_and_writes_nothing(home, capsys):
    heard: list[Heard] = []
    upstream = then(4, chat, no_credit)
    assert await probe(home, "--json", "--write", upstream=upstream, heard=heard) == 1
    shown = capsys.readouterr()
    card = json.loads(shown.out)
    assert [a["right"] for a in card["attempts"]] == [True] * 4
    assert "quota" in card["stopped"]
    assert "there is no best mode: local: You exceeded your current quota" in shown.err
    assert "nothing is written" in shown.err
    assert len(heard) == 5
    assert "tool_mode" not in (home / "toolbridge.toml").read_text()


async def test_one_broken_answer_does_not_stop_the_probe(home, capsys):
    upstream = then(1, chat, then(1, web_page, chat))
    flags = ("--json", "--tasks", "one-call")
    assert await probe(home, *flags, upstream=upstream, more="retries = 0\n") == 0
    assert right_by_mode(capsys.readouterr().out) == {"native": 2, "prompt": 3, "constrained": 3}


async def test_without_a_right_answer_nothing_is_written(home, capsys):
    flags = ("--tasks", "one-call", "--write", "--svg", str(home / "card.svg"))
    assert await probe(home, *flags, upstream=always_wrong) == 1
    shown = capsys.readouterr()
    assert "best mode: unknown" in shown.out
    assert "there is no best mode: no answer is right (" in shown.err
    assert "tool_mode" not in (home / "toolbridge.toml").read_text()
    assert not (home / "card.svg").exists()


@pytest.mark.parametrize(
    ("path", "text"),
    [("none/card.svg", "there is no directory"), ("folder", "it is a directory")],
)
async def test_a_path_that_cannot_be_written_is_found_before_the_first_request(
    home, capsys, path, text
):
    (home / "folder").mkdir()
    heard: list[Heard] = []
    assert await probe(home, "--svg", str(home / path), heard=heard) == 1
    assert f"{home / path} cannot be written: {text}" in capsys.readouterr().err
    assert heard == []


async def test_the_card_is_printed_before_a_file_is_written(home, capsys):
    """The directory disappears while the tasks are sent."""
    folder = home / "folder"
    folder.mkdir()

    async def removing(heard: Heard, line: Line) -> None:
        if folder.exists():
            folder.rmdir()
        await chat(heard, line)

    flags = ("--tasks", "one-call", "--svg", str(folder / "card.svg"))
    assert await probe(home, *flags, upstream=removing) == 1
    shown = capsys.readouterr()
    assert "best mode: native" in shown.out
    assert "card.svg" in shown.err


async def test_a_misspelt_name_is_sent_to_no_provider(home, capsys):
    heard: list[Heard] = []
    async with model_server(chat) as server:
        server.heard = heard
        config = home / "toolbridge.toml"
        config.write_text(f'[providers.local]\napi = "openai_chat"\nurl = "{server.url}/v1"\n')
        given = ["probe", "zzz", "--config", str(config)]
        assert await asyncio.to_thread(main, given) == 1
    assert "no model is called 'zzz'" in capsys.readouterr().err
    assert heard == []


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_file_stays_allowed_when_a_probe_writes_it(home, monkeypatch, capsys, allowed):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.chdir(home)
    async with model_server(chat) as server:
        config = home / "toolbridge.toml"
        config.write_text(f'[providers.local]\napi = "openai_chat"\nurl = "{server.url}/v1"\n')
        if allowed:
            assert main(["allow"]) == 0
        given = ["--config", str(config)] * (not allowed)
        command = ["probe", "local/tiny", "--tasks", "one-call", "--write", *given]
        assert await asyncio.to_thread(main, command) == 0
    capsys.readouterr()
    source = choose()
    if allowed:
        assert b"tool_mode" in source.content
    else:
        assert "you have not allowed it" in source.refused


def test_a_provider_that_does_not_answer_ends_the_probe(home, capsys):
    (home / "t.toml").write_text(
        '[providers.local]\napi = "openai_chat"\nurl = "http://127.0.0.1:1/v1"\nretries = 0\n'
    )
    assert main(["probe", "local/x", "--config", str(home / "t.toml")]) == 1
    assert "local" in capsys.readouterr().err
