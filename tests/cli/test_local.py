"""The model of `serve --local` in the configuration."""

from toolbridge.cli.local import configured
from toolbridge.config import Config, ModelConfig
from toolbridge.upstream.local import LoadedModel

LOADED = LoadedModel("small.Q4", "http://127.0.0.1:5", 8192, tools=False, vision=False)


def test_the_model_is_the_default_and_its_place_known():
    config = configured(Config(map={"opus": "a/b"}), LOADED, default=True)
    assert config.map == {"opus": "a/b", "default": "local/small.Q4"}
    place = config.providers["local"]
    assert (place.api, place.url) == ("openai_chat", "http://127.0.0.1:5/v1")
    assert place.quirks["tool_choice_named"] is False
    known = config.models["local/small.Q4"]
    assert (known.window, known.tools, known.vision) == (8192, False, False)


def test_a_model_that_was_named_stays_the_default():
    config = configured(Config(map={"default": "a/b"}), LOADED, default=False)
    assert config.map == {"default": "a/b"}
    assert "local" in config.providers


def test_what_the_user_says_of_the_model_wins():
    own = {"local/small.Q4": ModelConfig(tools=True, heal=0, window=4096)}
    known = configured(Config(models=own), LOADED, default=True).models["local/small.Q4"]
    assert (known.tools, known.heal) == (True, 0)
    assert known.window == 8192  # what the engine really gave
