"""`toolbridge models MODEL`: facts and their sources, in the words of the terminal."""

import pytest

from toolbridge.cli import main


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
