"""Call ids that a target accepts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Call, Result, Turn
from toolbridge.history.ids import fresh_id, legal_id, legal_ids

ANTHROPIC = Rules(id_pattern=r"[A-Za-z0-9_-]+", id_length=64)
SHORT = Rules(id_length=40)
NINE = Rules(id_pattern=r"[a-zA-Z0-9]{9}", id_length=9)


@pytest.mark.parametrize("rules", [ANTHROPIC, SHORT, Rules()])
def test_a_legal_id_is_kept(rules):
    assert legal_id("toolu_0123456789abcdef", rules) == "toolu_0123456789abcdef"


@given(st.text(), st.sampled_from([ANTHROPIC, SHORT, NINE, Rules()]))
def test_every_id_becomes_a_legal_one_that_stays(id, rules):
    new = legal_id(id, rules)
    assert re.fullmatch(rules.id_pattern, new, re.DOTALL)
    assert not rules.id_length or len(new) <= rules.id_length
    assert legal_id(new, rules) == new


@pytest.mark.parametrize("rules", [ANTHROPIC, SHORT, NINE])
def test_different_ids_stay_different(rules):
    ids = [f"functions.Bash:{n}" + "x" * 60 for n in range(2000)]
    assert len({legal_id(id, rules) for id in ids}) == 2000


def test_an_id_becomes_the_same_one_in_every_process():
    assert legal_id("functions.Bash:0", ANTHROPIC) == "call_vksw32iomjlnykk2i3xsm6xy"


def test_the_nth_use_of_an_id_has_an_id_of_its_own():
    assert len({fresh_id("a", n) for n in range(50)} | {fresh_id("b", n) for n in range(50)}) == 100


def test_a_call_and_its_result_get_the_same_id():
    turns = [Turn("assistant", (Call("a:b", "T"),)), Turn("user", (Result("a:b"),))]
    asked, answered = legal_ids(turns, ANTHROPIC)
    assert asked.content[0].id == answered.content[0].call_id == legal_id("a:b", ANTHROPIC)
