import re

from toolbridge import providers
from toolbridge.codecs.gemini import CODEC, authorize


def test_a_key_has_its_own_header():
    assert authorize("k") == {"x-goog-api-key": "k"}
    assert authorize("") == {}


def test_names_that_gemini_takes_are_kept():
    for name in ("Bash", "_x", "mcp__a-b.c:d"):
        assert re.fullmatch(CODEC.rules.name_pattern, name)
    for name in ("1st", "a b", "-x", ""):
        assert not re.fullmatch(CODEC.rules.name_pattern, name)


def test_google_is_a_place_that_speaks_it():
    place = providers.load("google")
    assert place.api == CODEC.name
    assert place.key == "$GEMINI_API_KEY"
