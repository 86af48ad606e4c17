import pytest
from tests.tables import every_row

from toolbridge.codecs.gemini.quirks import Quirks, read_quirks
from toolbridge.core.errors import ConfigError


@every_row(
    ("model", "style", "sampling", "media"),
    [
        ("gemini-2.5-flash", "budget", True, False),
        ("models/gemini-2.5-pro-preview", "budget", True, False),
        ("gemini-2.0-flash", "none", True, False),
        ("gemini-3.1-pro-preview", "level", True, True),
        ("gemini-3.8-flash", "level", False, True),
        ("gemini-4-carbon", "level", False, True),
        ("some-model", "level", True, True),
    ],
)
def test_what_is_known_of_a_family(model, style, sampling, media):
    quirks = read_quirks(model, {})
    assert (quirks.thinking_style, quirks.sampling, quirks.media_in_results) == (
        style,
        sampling,
        media,
    )


def test_the_longest_name_that_fits_counts():
    assert read_quirks("gemini-2.5-pro", {}).least_budget == 128
    assert read_quirks("gemini-2.5-flash", {}).least_budget == 0


def test_a_configuration_has_the_last_word():
    quirks = read_quirks("gemini-2.5-pro", {"thinking_style": "level", "sampling": False})
    assert (quirks.thinking_style, quirks.sampling, quirks.least_budget) == ("level", False, 128)


@pytest.mark.parametrize(
    ("given", "words"),
    [({"levels": 1}, "thinking_levels"), ({"sampling": "no"}, "quirks.sampling")],
)
def test_a_quirk_that_does_not_exist_is_an_error(given, words):
    with pytest.raises(ConfigError, match=words):
        read_quirks("m", given)


def test_the_defaults_are_the_current_models():
    assert read_quirks("", {}) == Quirks()
