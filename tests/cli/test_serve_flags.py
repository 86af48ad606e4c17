"""Every flag of `serve` sets what its help states."""

import argparse

import pytest
from tests.tables import every_row

from toolbridge.cli import options, serve, state
from toolbridge.core.errors import ConfigError


def parsed(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.arguments(parser)
    return parser.parse_args(given)


def flags(*given: str) -> dict[str, object]:
    return {
        name: value for name, value in options.flags(parsed(*given)).items() if value is not None
    }


@every_row(
    ("given", "setting"),
    [
        ((), {}),
        (("--host", "::1"), {"host": "::1"}),
        (("--port", "0"), {"port": 0}),
        (("--api-key", "k"), {"key": "k"}),
        (("--model", "ollama/m"), {"model": "ollama/m"}),
        (("--thinking", "drop"), {"thinking": "drop"}),
        (("--record", "d"), {"record": "d"}),
        (("--log", "off"), {"log": "off"}),
        (("--workers", "3"), {"workers": 3}),
    ],
)
def test_a_flag_is_one_setting(given, setting):
    assert flags(*given) == setting


def test_flags_of_the_process_are_no_settings():
    args = parsed("--background", "--local", "--announce", "f")
    assert (args.background, args.local, str(args.announce)) == (True, "", "f")
    assert parsed("--local", "m.gguf").local == "m.gguf"
    assert (parsed().background, parsed().local, parsed().announce) == (False, None, None)
    assert flags("--background", "--local", "--announce", "f") == {}


def test_flags_replace_what_the_file_has(tmp_path, monkeypatch):
    monkeypatch.delenv("TOOLBRIDGE_PORT", raising=False)
    file = tmp_path / "own.toml"
    file.write_text('port = 4001\n[map]\ndefault = "demo"\n')
    found = options.load(parsed("--config", str(file), "--model", "ollama/m", "--port", "4002"))
    assert (found.port, found.map["default"]) == (4002, "ollama/m")
    found = options.load(parsed("--config", str(file)))
    assert (found.port, found.map["default"]) == (4001, "demo")


def test_a_key_on_the_command_line_is_warned_of(capsys):
    options.warn_of_key(parsed())
    assert capsys.readouterr().err == ""
    options.warn_of_key(parsed("--api-key", "k"))
    assert "set TOOLBRIDGE_KEY" in capsys.readouterr().err


@pytest.mark.parametrize("given", [("--thinking", "no"), ("--log", "no"), ("--port", "x")])
def test_a_value_that_a_flag_does_not_have_ends_the_command(given, capsys):
    with pytest.raises(SystemExit):
        parsed(*given)
    assert given[0] in capsys.readouterr().err


@every_row(
    ("given", "warns"),
    [
        ((), False),
        (("--port", "3801"), False),
        (("--port", "0"), False),
        (("--model", "demo"), True),
        (("--port", "3801", "--api-key", "k"), True),
    ],
)
def test_a_gateway_that_already_runs_is_no_error(given, warns, monkeypatch, capsys):
    monkeypatch.setattr(state, "find", lambda: state.Running(1, "http://127.0.0.1:3801"))
    assert serve._background(parsed("--background", *given)) == 0
    out, err = capsys.readouterr()
    assert out == "a gateway already runs at http://127.0.0.1:3801 (pid 1)\n"
    assert ("toolbridge stop" in err) == warns


def test_a_gateway_that_already_runs_at_another_port_is_an_error(monkeypatch):
    monkeypatch.setattr(state, "find", lambda: state.Running(1, "http://127.0.0.1:3801"))
    with pytest.raises(ConfigError, match=r"not at port 3802; stop it with `toolbridge stop`"):
        serve._background(parsed("--background", "--port", "3802"))
