"""Sealed texts open with their own key only."""

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.result_seals import maybe_unseal, seal

KEY = b"k" * 32


@given(st.text(min_size=1, max_size=500))
def test_a_text_comes_back(text):
    kept = text.encode("utf-8", "replace").decode()
    assert maybe_unseal(seal(text, KEY), KEY) == kept


def test_another_key_and_a_changed_text_open_nothing():
    sealed = seal("secret", KEY)
    assert maybe_unseal(sealed, b"other") is None
    for i in range(4, len(sealed)):
        changed = sealed[:i] + ("A" if sealed[i] != "A" else "B") + sealed[i + 1 :]
        assert maybe_unseal(changed, KEY) in {None, "secret"}  # padding bits carry nothing


@every_row("value", ["", "RWVscw==", "tb1.", "tb1.ä", "tb1.AAAA", "tb1.%%%"])
def test_other_values_are_no_seals(value):
    assert maybe_unseal(value, KEY) is None


def test_an_empty_text_needs_no_seal_and_a_long_one_is_cut():
    assert seal("", KEY) == ""
    assert len(maybe_unseal(seal("x" * 100_000, KEY), KEY)) == 8000
