import pytest
from tests.tables import every_row

from toolbridge.codecs.gemini.partial_args import PartialArgs
from toolbridge.codecs.gemini.shapes import PartialArg
from toolbridge.core.errors import BrokenWire


def whole(*pieces):
    arguments = PartialArgs()
    for path, value in pieces:
        match value:
            case str():
                arguments.add(PartialArg(path, string_value=value))
            case bool():
                arguments.add(PartialArg(path, bool_value=value))
            case float() | int():
                arguments.add(PartialArg(path, number_value=float(value)))
            case _:
                arguments.add(PartialArg(path))
    return arguments.whole()


@every_row(
    ("pieces", "expected"),
    [
        ([], {}),
        ([("$.a", "x"), ("$.b", 1), ("$.a", "y")], {"a": "xy", "b": 1}),
        ([("$.a", 1.5), ("$.b", True), ("$.c", None), ("$.d", "")], {"a": 1.5, "b": True, "c": None, "d": ""}),
        ([("$.a.b.c", "x"), ("$.a.d", 2)], {"a": {"b": {"c": "x"}, "d": 2}}),
        ([("$.a[0]", "x"), ("$.a[2].b", "y")], {"a": ["x", None, {"b": "y"}]}),
        ([("$['a b']", "x"), ('$["c\\"d"][0]', "y")], {"a b": "x", 'c"d': ["y"]}),
        ([("$.a[0][1]", 1)], {"a": [[None, 1]]}),
    ],
)  # fmt: skip
def test_pieces_are_put_together(pieces, expected):
    assert whole(*pieces) == expected


@every_row("path", ["", "a", "$", "$[0]", "$.", "$.a[", "$.a[x]", "$.a[999999]", "$..a"])
def test_a_path_that_cannot_be_read_is_a_broken_wire(path):
    with pytest.raises(BrokenWire):
        whole((path, "x"))


@pytest.mark.parametrize("pieces", [[("$.a", "x"), ("$.a.b", 1)], [("$.a.b", 1), ("$.a[0]", 1)]])
def test_pieces_that_contradict_one_another_are_a_broken_wire(pieces):
    with pytest.raises(BrokenWire):
        whole(*pieces)
