"""Python functions as tools."""

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import pytest

import toolbridge
from toolbridge.tools.functions import Function


@dataclass
class Point:
    x: int
    y: int


class Node(msgspec.Struct):
    name: str
    children: list["Node"] = []


def book(
    city: Annotated[str, "Where to stay."],
    nights: Annotated[int, msgspec.Meta(ge=1)],
    *,
    rooms: list[Literal["single", "double"]] = ["single"],  # noqa: B006
    note: str | None = None,
    at: Point | None = None,
    price: float = 1.5,
    quick: bool = False,
    more: dict[str, int] = {},  # noqa: B006
    **_rest: object,
) -> str:
    """Book a hotel.

    Only real ones.
    """
    return f"{city} {nights} {rooms} {note} {at} {price} {quick} {more}"


def test_the_signature_is_the_schema():
    tool = Function(book).tool
    assert (tool.name, tool.description) == ("book", "Book a hotel.\n\nOnly real ones.")
    properties = tool.schema["properties"]
    assert tool.schema["type"] == "object"
    assert tool.schema["required"] == ["city", "nights"]
    assert properties["city"] == {"type": "string", "description": "Where to stay."}
    assert properties["nights"] == {"type": "integer", "minimum": 1}
    assert properties["rooms"]["items"] == {"enum": ["double", "single"]}
    assert {"type": "null"} in properties["note"]["anyOf"]
    assert properties["at"]["anyOf"][0]["properties"] == {
        "x": {"type": "integer"}, "y": {"type": "integer"},
    }  # fmt: skip
    assert properties["price"] == {"type": "number", "default": 1.5}
    assert properties["quick"]["type"] == "boolean"
    assert properties["more"]["additionalProperties"] == {"type": "integer"}
    assert "_rest" not in properties


def test_arguments_come_as_the_types_that_are_declared():
    given = {"city": "Rome", "nights": "2", "at": {"x": 1, "y": 2}, "stranger": 1}
    expected = "Rome 2 ['single'] None Point(x=1, y=2) 1.5 False {}"
    assert Function(book).call(given) == expected


def test_a_tool_is_still_a_function():
    double = toolbridge.tool(lambda n: 2 * n)
    assert double(4) == 8


def test_a_name_and_a_description_may_be_given():
    @toolbridge.tool(name="sum", description="Adds.")
    def add(a: int, b: int) -> int:
        return a + b

    assert (add.tool.name, add.tool.description) == ("sum", "Adds.")
    assert add.call({"a": 1, "b": 2}) == 3


def test_a_parameter_without_a_type_takes_anything():
    seen = Function(lambda value, other=3: (value, other))
    assert seen.tool.schema["properties"]["value"] == {}
    assert seen.call({"value": {"a": [1]}}) == ({"a": [1]}, 3)


def test_a_type_that_contains_itself_keeps_its_references():
    def walk(node: Node) -> str:
        return node.name

    function = Function(walk)
    assert "$defs" in function.tool.schema
    assert function.call({"node": {"name": "a", "children": [{"name": "b"}]}}) == "a"


def test_a_function_without_parameters_has_an_empty_object():
    schema = Function(lambda: 1).tool.schema
    assert (schema["type"], schema["properties"]) == ("object", {})


def positional(a: int, /) -> int:
    return a


def many(*a: int) -> int:
    return len(a)


def unknown(a: "Missing") -> None:  # noqa: F821
    """Its annotation names nothing."""


@pytest.mark.parametrize("function", [positional, many, unknown])
def test_a_function_that_a_model_cannot_call_is_refused(function):
    with pytest.raises(TypeError, match=function.__name__):
        Function(function)
