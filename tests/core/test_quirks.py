import msgspec
import pytest
from tests.tables import every_row

from toolbridge.core.errors import ConfigError
from toolbridge.core.quirks import decode_quirks


class Switches(msgspec.Struct, frozen=True):
    sampling: bool = True
    levels: tuple[str, ...] = ()


def test_quirks_that_are_not_set_have_their_defaults():
    assert decode_quirks({"sampling": False}, Switches) == Switches(sampling=False)


@every_row(
    ("given", "text"),
    [
        ({"sampling": False, "wibble": 1}, "quirks.wibble: there is no quirk 'wibble'"),
        ({"wibble": 1}, "use one of levels, sampling"),
        ({"sampling": "no"}, "quirks.sampling: Expected `bool`"),
        ({"levels": [1]}, "quirks.levels"),
    ],
)
def test_a_mistake_is_an_error_that_names_the_quirk(given, text):
    with pytest.raises(ConfigError, match=text):
        decode_quirks(given, Switches)
