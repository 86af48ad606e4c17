"""The child process that serves a model file, with an engine that does as told."""

import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from toolbridge.core.errors import ConfigError, ToolbridgeError
from toolbridge.upstream import local
from toolbridge.upstream.local import Engine, LoadedModel

STUB = Path(__file__).parent / "stub_engine"


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """Return a function that starts an engine with a file that says `told`."""
    monkeypatch.syspath_prepend(str(STUB))
    monkeypatch.setenv("PYTHONPATH", str(STUB))
    started: list[Engine] = []

    def start(told: str, **settings) -> Engine:
        model = tmp_path / "small.Q4.gguf"
        model.write_text(told)
        started.append(Engine(model, **settings))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_a_model_is_served_and_described(engine):
    loaded = engine("fine", window=4096).wait_until_ready()
    assert loaded == LoadedModel("small.Q4", loaded.url, 4096, tools=True, vision=False)
    with urllib.request.urlopen(f"{loaded.url}/props") as reply:
        assert b'"model_alias": ["small.Q4"]' in reply.read()


@pytest.mark.parametrize(
    ("told", "tools", "vision"), [("no tools", False, False), ("eyes", True, True)]
)
def test_what_the_model_can_is_the_servers_word(engine, told, tools, vision):
    loaded = engine(told).wait_until_ready()
    assert (loaded.tools, loaded.vision) == (tools, vision)


def test_a_model_that_is_still_loading_is_waited_for(engine):
    assert engine("slow").wait_until_ready().window == local.WINDOW


def test_an_engine_that_dies_is_told_with_its_last_words(engine):
    with pytest.raises(ToolbridgeError, match=r"ended with status 1 .*\n(.*\n)*.*bad magic"):
        engine("die").wait_until_ready()


def test_an_engine_that_hangs_is_ended(engine):
    began = time.monotonic()
    with pytest.raises(ToolbridgeError, match="ended with status -9"):
        engine("hang", wait=1.0).wait_until_ready()
    assert time.monotonic() - began < 60


def test_a_stop_ends_the_server(engine):
    one = engine("fine")
    url = one.wait_until_ready().url
    one.stop()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=2)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no file .*missing\.gguf"):
        Engine(tmp_path / "missing.gguf")


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(local, "ENGINE", "no_such_engine")
    (tmp_path / "a.gguf").touch()
    with pytest.raises(ConfigError, match=r"pip install '\.\[local\]'"):
        Engine(tmp_path / "a.gguf")
