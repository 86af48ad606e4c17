"""`toolbridge models MODEL`: facts and their sources, in the words of the terminal."""

import asyncio

import pytest

from toolbridge.cli import main
from toolbridge.config import ProviderConfig
from toolbridge.core.codec import Target
from toolbridge.policy.corrections import Correction
from toolbridge.policy.tool_modes import ModeOutcome
from toolbridge.routing.learned_corrections import LearnedCorrections
from toolbridge.routing.route import Route
from toolbridge.routing.tool_modes import ToolModes
from toolbridge.store.engines import STORE_FILE
from toolbridge.store.sqlite import SqliteStore


@pytest.fixture
def show(monkeypatch, tmp_path, capsys):
    """Return a function that runs the command with a configuration and returns status and output."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "XAI_API_KEY"):
        monkeypatch.setenv(name, "k")
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run(*names: str, config: str = "") -> tuple[int, str, str]:
        file = tmp_path / "toolbridge.toml"
        file.write_text(config)
        status = main(["models", "--config", str(file), *names])
        return status, *capsys.readouterr()

    return run


def test_facts_of_the_table_and_of_a_family(show):
    status, out, _ = show("openai/gpt-6.1-sol", "anthropic/claude-fable-5-2")
    assert status == 0
    assert "openai/gpt-6.1-sol  →  openai/gpt-6.1-sol" in out
    assert "window    922000 tokens, only shown  (table)" in out
    assert "efforts low, medium, high, xhigh, max; cannot be turned off  (table)" in out
    assert "tools with reasoning in Chat Completions  (table)" in out
    assert "forced tool calls, a last message of the assistant  (family)" in out


def test_the_configuration_is_a_source(show):
    config = '[models."openai/gpt-4.1"]\nwindow = 1000\nvision = false\n'
    _, out, _ = show("openai/gpt-4.1", config=config)
    assert "window    1000 tokens, rejects longer prompts  (config)" in out
    assert "lacks     thinking, vision  (table, config)" in out


def test_a_model_with_one_api(show):
    _, out, _ = show("openai/o3-pro")
    assert "API       openai_responses  (the only one of this model)" in out


def test_an_unknown_name_is_an_error_and_the_others_are_shown(show):
    status, out, err = show("nonesuch", "xai/grok-4.7")
    assert status == 1
    assert "no model is called 'nonesuch'" in err
    assert "xai/grok-4.7" in out


def test_a_model_without_facts_has_only_its_api(show):
    _, out, _ = show("xai/brand-new")
    assert out.splitlines() == ["xai/brand-new  →  xai/brand-new", "  API       openai_chat"]


def test_the_list_names_the_source_of_a_window(show):
    config = (
        '[map]\nopus = "mine/claude-opus-5-5"\n[providers.mine]\napi = "anthropic"\n'
        'url = "http://127.0.0.1:9"\nkey = "k"\n'
    )
    _, out, _ = show(config=config)
    assert "opus  →  mine/claude-opus-5-5  (1000000 tokens, table)" in out


def test_the_rules_that_may_apply_to_a_name_are_shown(show):
    config = """
        [map]
        default = "xai/grok-4.7"
        [[routes]]
        task = ["background", "subagent"]
        to = "xai/small"
        [[routes]]
        model = "gpt-*"
        to = [{ model = "xai/a", weight = 3 }, { model = "xai/b" }]
        [[routes]]
        min_tokens = 9
        to = "xai/long"
    """
    _, out, _ = show("gpt-5", "claude-sonnet-4-5", config=config)
    first, second = out.split("claude-sonnet-4-5  →  ")
    assert first.startswith("gpt-5  →  xai/grok-4.7")
    assert "  route     1. task background or subagent → xai/small" in first
    assert "  route     2. model gpt-* → xai/a (75%), xai/b (25%)" in first
    assert "2. model" not in second
    assert "  route     3. at least 9 tokens → xai/long" in second


def test_doctor_checks_the_models_of_rules(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "toolbridge.toml"
    file.write_text('[map]\ndefault = "demo"\n[[routes]]\ntask = "main"\nto = "openai/gpt-5"\n')
    assert main(["doctor", "--config", str(file), "x"]) == 1
    out = capsys.readouterr().out
    assert "BAD   routes.1 (task main) → openai/gpt-5" in out
    assert "OPENAI_API_KEY is not set" in out
    assert "x is routed first by:\n      1. task main → openai/gpt-5" in out


async def store_learned(state, place: ProviderConfig) -> None:
    """Write what a gateway learns about `box/m` into the store of the user."""
    route = Route("box", place, "", Target("m"))
    store = SqliteStore(state / "toolbridge" / STORE_FILE)
    corrections, modes = LearnedCorrections(), ToolModes()
    corrections.attach(store, has_values=False)
    found = (Correction("drop", "temperature"), Correction("rename", "max_tokens", ("max_completion_tokens",)))  # fmt: skip
    corrections.add(route, found)
    await modes.open(store, load=False)
    for _ in range(3):
        modes.note(route, "native", ModeOutcome(worked=False, why="no call came"))
    await corrections.close()
    await modes.close()
    await store.close()


def test_what_was_learned_is_shown_with_the_reason(show, tmp_path):
    place = ProviderConfig(api="openai_chat", url="http://127.0.0.1:1")
    config = '[providers.box]\napi = "openai_chat"\nurl = "http://127.0.0.1:1"\n'
    _, out, _ = show("box/m", config=config)
    assert "refuses" not in out
    asyncio.run(store_learned(tmp_path, place))
    _, out, _ = show("box/m", config=config)
    assert "  refuses   temperature: box/m rejects it; it was left out  (learned)" in out
    assert "max_tokens: box/m rejects it; it was sent as max_completion_tokens  (learned)" in out
    assert "  tool mode prompt  (learned: no call came)" in out


def test_the_reason_of_a_configured_tool_mode_is_shown(show):
    _, out, _ = show("xai/new", config='[models."xai/new"]\ntool_mode = "prompt"\n')
    assert "  tool mode prompt  (set by `tool_mode`)" in out


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ('tool_mode = "native"', "capabilities: tools; unknown: thinking, vision (known from: config)"),
        ("tools = false", "capabilities: none; unknown: thinking, vision (known from: config)"),
        ("tools = true\nthinking = true\nvision = false", "capabilities: thinking, tools (known from: config)"),
        ("", "capabilities: unknown\n"),
    ],
)  # fmt: skip
def test_doctor_shows_only_capabilities_that_are_known(tmp_path, monkeypatch, capsys, settings, shown):  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "toolbridge.toml"
    file.write_text(
        '[providers.fk]\napi = "openai_chat"\nurl = "http://127.0.0.1:1"\n'
        f'[models."fk/dumb"]\n{settings}\n'
    )
    main(["doctor", "--config", str(file), "fk/dumb"])
    assert shown in capsys.readouterr().out
