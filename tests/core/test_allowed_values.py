"""Errors for a value that is not in a closed list: everywhere, they list the allowed values."""

from enum import Enum
from typing import Annotated, Literal

import msgspec
import pytest
from tests.tables import every_row

from toolbridge.codecs.anthropic.quirks import Quirks
from toolbridge.config import Config, ProviderConfig
from toolbridge.config_file import load
from toolbridge.core.allowed_values import with_allowed
from toolbridge.core.errors import ConfigError, MalformedRequest
from toolbridge.core.quirks import decode_quirks
from toolbridge.node.settings import read_settings
from toolbridge.routing.providers import find_providers
from toolbridge.runs.request import read_request
from toolbridge.wire.shapes import convert_request, decode_request


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Leaf(msgspec.Struct, tag="leaf"):
    size: Literal["s", "m"] = "s"


class Twig(msgspec.Struct, tag="twig"):
    size: Literal["l", ""] = "l"
    inner: "Tree | None" = None


class Tree(msgspec.Struct, rename="camel"):
    kind: Literal["oak"] = "oak"
    leaf_color: Color | None = None
    parts: dict[str, list[Leaf | Twig]] = {}
    pair: tuple[int, Annotated[Literal["x", "y"], msgspec.Meta(description="d")]] | None = None


@every_row(
    ("value", "text"),
    [
        ({"kind": "elm"}, "Invalid enum value 'elm'; use oak - at `$.kind`"),
        ({"kind": "a - at `$.pair`"}, "Invalid enum value 'a - at `$.pair`'; use oak - at `$.kind`"),
        ({"leafColor": "pink"}, "Invalid enum value 'pink'; use one of blue, red - at `$.leafColor`"),
        ({"pair": [1, "z"]}, "Invalid enum value 'z'; use one of x, y - at `$.pair[1]`"),
        ({"parts": {"a": [{"type": "leaf", "size": "q"}]}}, "Invalid enum value 'q'; use one of l, m, s - at `$.parts[...][0].size`"),
        ({"parts": {"a": [{"type": "twig", "inner": {"kind": "q"}}]}}, "Invalid enum value 'q'; use oak - at `$.parts[...][0].inner.kind`"),
        ({"kind": 3}, "Expected `str`, got `int` - at `$.kind`"),
    ],
)  # fmt: skip
def test_the_values_of_the_field_at_the_path_are_listed(value, text):
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, Tree)
    assert with_allowed(str(raised.value), Tree) == text


def test_a_whole_value():
    assert with_allowed("Invalid enum value 'c'", Literal["a", "b"]) == "Invalid enum value 'c'; use one of a, b"  # fmt: skip


def test_a_setting(tmp_path):
    file = tmp_path / "toolbridge.toml"
    for text, allowed in (
        ('[providers.x]\ncloud = "bedrok"', "one of azure, bedrock, foundry, mantle, vertex"),
        ('log = "loud"', "one of auto, json, off, pretty"),
        ('[models."x/y"]\ntool_mode = "on"', "one of auto, constrained, native, prompt"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=f"invalid enum value '.*'; use {allowed}"):
            load(file, env={})


def test_a_quirk_and_a_setting_of_a_node():
    with pytest.raises(ConfigError, match="use one of"):
        decode_quirks({"thinking_types": ["odd"]}, Quirks)
    wrong = ProviderConfig(api="openai_chat", url="http://x", quirks={"thinking_format": "odd"})
    with pytest.raises(ConfigError, match="use one of llamacpp, none, openai"):
        find_providers(Config(providers={"x": wrong}), {})
    with pytest.raises(ConfigError, match='"native" or "token"'):
        read_settings({"model": "a/b:c", "pay": "cash"})


def test_a_field_of_a_request():
    with pytest.raises(MalformedRequest) as raised:
        read_request({"prompt": "x", "mode": "bogus"}, {})
    assert raised.value.problem.text == "invalid enum value 'bogus'; use one of auto, native, sentinel"  # fmt: skip
    assert raised.value.problem.where == "mode"
    for decode in (
        lambda: decode_request(b'{"kind": "elm"}', msgspec.json.Decoder(Tree), "tree"),
        lambda: convert_request({"kind": "elm"}, Tree, "tree"),
    ):
        with pytest.raises(MalformedRequest) as raised:
            decode()
        assert (raised.value.problem.text, raised.value.problem.where) == ("Invalid enum value 'elm'; use oak", "tree.kind")  # fmt: skip
