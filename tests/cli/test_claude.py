"""Claude Code, started by toolbridge: its arguments and its prices."""

import json
from pathlib import Path

import pytest
from tests.tables import every_row

from toolbridge.cli.claude import split
from toolbridge.cli.claude_prices import installed_version, price_arguments, rates_for, rates_of
from toolbridge.config import Config, ModelConfig, RatesConfig


@every_row(
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
