"""Keys under which a call is the same call again."""

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.tools.keys import canonical, derive_key


@every_row(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": {"x": [{"p": 1, "q": 2}]}}, {"a": {"x": [{"q": 2, "p": 1}]}}),
        ({"a": 3}, {"a": 3.0}),
        ({"a": 0.0}, {"a": -0.0}),
    ],
)
def test_the_same_arguments_are_the_same_bytes(one, other):
    assert canonical(one) == canonical(other)


@every_row(
    ("one", "other"),
    [({"a": 1}, {"a": "1"}), ({"a": 1}, {"a": True}), ({"a": None}, {}), ({"a": [1, 2]}, {"a": [2, 1]}),
     ({"a": 1.5}, {"a": 1}), ({"a": 2**60}, {"a": 2.0**60 * 2})],
)  # fmt: skip
def test_other_arguments_are_other_bytes(one, other):
    assert canonical(one) != canonical(other)


@given(st.text(), st.text(), st.text(), st.text())
def test_no_part_of_a_key_can_pose_as_another(key, tool, more, name):
    if (key, tool) != (more, name):
        assert derive_key(key, tool, {}) != derive_key(more, name, {})


def test_half_a_character_makes_no_trouble():
    assert derive_key("k", "t", {"a": "\ud800", "\udfff": 1})
