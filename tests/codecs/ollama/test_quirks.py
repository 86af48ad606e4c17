import pytest

from toolbridge.codecs.ollama.quirks import Quirks, read_quirks
from toolbridge.core.errors import ConfigError


def test_a_model_takes_true_or_false_unless_a_quirk_names_levels():
    assert read_quirks({}) == Quirks(think_levels=False, no_truncate=False)
    assert read_quirks({"think_levels": True}).think_levels


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"levels": 1}, "there is no quirk 'levels'; did you mean `think_levels`?"),
        ({"no_truncate": "yes"}, "quirks.no_truncate"),
    ],
)
def test_a_quirk_that_does_not_exist_is_an_error(given, text):
    with pytest.raises(ConfigError, match=text):
        read_quirks(given)
