"""A user of the command line, with a home of their own."""

import os

import pytest

from toolbridge import trust


@pytest.fixture
def env(tmp_path):
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "OLLAMA_HOST": "127.0.0.1:1",
    }


@pytest.fixture
def configure(env, tmp_path):
    """Return a function that writes the working directory's configuration, and allows it."""

    def write(text: str, folder=tmp_path):
        file = folder / "toolbridge.toml"
        file.write_text(text)
        file.chmod(0o644)
        return trust.allow(file, env)

    return write


@pytest.fixture
def clean(monkeypatch, tmp_path):
    """An environment in which nothing is set, and a directory without a configuration."""
    for name in list(os.environ):
        if name.startswith(("CLAUDE_BRIDGE", "TOOLBRIDGE")) or name == "PORT":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return monkeypatch
