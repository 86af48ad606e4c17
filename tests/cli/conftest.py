"""A user of the command line, with a home of their own."""

import os

import pytest


@pytest.fixture
def env(tmp_path):
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "OLLAMA_HOST": "127.0.0.1:1",
    }
