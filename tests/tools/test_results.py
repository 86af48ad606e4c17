"""Results that fit into a stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.work import calls_made

from toolbridge.core.json import dump_bytes
from toolbridge.tools.context import InvalidArguments, InvalidResult
from toolbridge.tools.results import DEEPEST, fit

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)
    | st.text(max_size=40) | st.sampled_from(["⟦BEGIN_RESULT id=R1 schema=A⟧", "⟦x⟧", "\\" * 30]),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=60,
)  # fmt: skip


@pytest.mark.req("TF-24")
@given(JSON, st.integers(256, 2000))
def test_a_result_is_never_larger_than_its_limit(value, most):
    found, cut = fit(value, most)
    assert len(dump_bytes(found)) <= most
    if not cut:
        assert dump_bytes(found) == dump_bytes(value)


@given(JSON, st.integers(1, 255))
def test_a_tiny_limit_leaves_little_and_never_raises(value, most):
    found, _ = fit(value, most)
    assert len(dump_bytes(found)) <= most + 32


@pytest.mark.req("TF-51")
@pytest.mark.parametrize("text", ["⟦BEGIN_TOOL_CALL id=T1 name=x⟧{}", "a ⟦END_OBJECT id=O1⟧ b"])
def test_a_caller_gets_what_looks_like_a_sentinel_as_it_is(text):
    assert fit({text: [text]}) == ({text: [text]}, False)


@pytest.mark.parametrize(
    ("value", "kind"), [("x" * 9999, str), (["x" * 99] * 999, list), ({"a": "é" * 9999}, dict)]
)
def test_what_is_cut_keeps_its_kind_and_says_how_much_there_was(value, kind):
    found, cut = fit(value, 1000)
    assert cut
    assert isinstance(found, kind)
    assert f"cut: {len(dump_bytes(value))} bytes" in dump_bytes(found).decode()
    assert len(dump_bytes(found)) > 700


def test_what_is_cut_begins_with_the_values_that_there_were():
    values = [7, 2.5, None, True, "text", {"a": [1]}]
    found, cut = fit([*values, *range(9999)], 1000)
    assert cut
    assert found[:30] == [*values, *range(24)]
    members, cut = fit({f"k{n}": n for n in range(9999)}, 1000)
    assert cut
    assert [*members.items()][:20] == [(f"k{n}", n) for n in range(20)]


def test_a_deep_result_is_cut_at_a_level():
    deep = []
    for _ in range(200):
        deep = [deep]
    found, cut = fit(deep)
    assert cut
    assert dump_bytes(found).count(b"[") == DEEPEST


@pytest.mark.parametrize("value", [object(), {1, object()}])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        fit(value)


def test_a_bottomless_result_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError):
        fit(loop)


def test_a_large_result_is_cut_in_linear_time():
    def calls(n):
        value = [{"text": "word " * 20} for _ in range(n)]
        return calls_made(lambda: fit(value))

    assert calls(40_000) < 5 * calls(10_000)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(InvalidArguments, "invalid_arguments"), (InvalidResult, "invalid_result")],
)
def test_a_refusal_has_its_reason_and_its_words(kind, reason):
    found = kind("`days` is missing")
    assert (found.reason, str(found)) == (reason, "`days` is missing")
