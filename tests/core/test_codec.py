import pytest
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.codec import Codec, Target
from toolbridge.core.errors import ConfigError
from toolbridge.core.quirks import check_quirks


@every_row(
    ("capabilities", "unknown", "can"),
    [
        (None, True, True),
        (None, False, False),
        (frozenset({"tools"}), False, True),
        (frozenset({"vision"}), True, False),
        (frozenset(), True, False),
    ],
)
def test_a_model_can_what_is_known_of_it(capabilities, unknown, can):
    assert Target(capabilities=capabilities).can("tools", unknown=unknown) is can


@every_row("name", codecs.names())
def test_a_codec_is_found_by_its_name(name):
    codec = codecs.load(name)
    assert isinstance(codec, Codec)
    assert codec.name == name


@every_row("name", ["", "openai", "os", "toolbridge.config", "../anthropic"])
def test_no_other_module_is_loaded(name):
    with pytest.raises(ConfigError, match="no API is called"):
        codecs.load(name)


def test_a_quirk_that_nobody_knows_is_named():
    check_quirks({"a": 1}, {"a", "b"})
    with pytest.raises(ConfigError, match=r"quirks.c: there is no quirk 'c'; use one of a, b"):
        check_quirks({"c": 1}, {"a", "b"})


def test_a_mistyped_api_has_a_suggestion():
    with pytest.raises(ConfigError, match=r"did you mean `anthropic`\?"):
        codecs.load("antropic")
