import pytest
from tests.tables import every_row

from toolbridge import providers
from toolbridge.codecs.openai_chat.quirks import Quirks, read_quirks
from toolbridge.core.errors import ConfigError

PLACES = [name for name in providers.names() if providers.load(name).api == "openai_chat"]


def test_without_quirks_the_api_is_as_most_places_speak_it():
    assert read_quirks({}) == Quirks()


@every_row(
    ("given", "where"),
    [
        ({"wibble": True}, "wibble"),
        ({"thinking_field": "thoughts"}, "thinking_field"),
        ({"store": "yes"}, "store"),
        ({"extra_sampling": ["temperature"]}, "extra_sampling"),
    ],
)
def test_a_quirk_that_does_not_exist_is_named(given, where):
    with pytest.raises(ConfigError) as raised:
        read_quirks(given)
    assert where in str(raised.value)


def test_there_are_places_that_speak_this_api():
    assert {"groq", "deepseek", "openrouter", "vllm", "llamacpp"} <= set(PLACES)


@every_row("name", PLACES)
def test_the_quirks_of_every_place_exist(name):
    place = providers.load(name)
    read_quirks(place.quirks)
    assert place.url.startswith(("https://", "http://127.0.0.1:"))
    assert place.key.startswith("$") or "${" in "".join(place.headers.values())
