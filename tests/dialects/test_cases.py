"""The corpus: every hard case is read right, and the same however the text is cut."""

from collections import defaultdict

import pytest
from tests.dialects.cases import (
    CLASSES,
    CUTS,
    OWN,
    SHARED,
    disputed,
    faults_of,
    is_hard,
    load,
    read,
)
from tests.tables import every_row

DISPUTED = disputed()


def by_dialect(cases: list[dict]) -> dict[str, list[dict]]:
    found = defaultdict(list)
    for case in cases:
        found[case["dialect"]].append(case)
    return dict(sorted(found.items()))


OURS = by_dialect(load(OWN) + load(CLASSES))
THEIRS = by_dialect(load(SHARED)) if SHARED.exists() else {}


def wrong(cases: list[dict], cut: str) -> dict[str, list[str]]:
    found = {case["id"]: faults_of(case, cut) for case in cases}
    return {id: faults for id, faults in found.items() if faults}


@pytest.mark.req("CB-30", "CB-31")
@every_row("cut", CUTS)
@pytest.mark.parametrize("dialect", OURS)
def test_every_hard_case_is_read_right(dialect, cut):
    cases = [c for c in OURS[dialect] if is_hard(c) and c["id"] not in DISPUTED]
    assert wrong(cases, cut) == {}


NEEDS_ITS_NAME = {
    "matrix/functionary_v32/004",  # a word on the first line is only a word
    "matrix/ernie45/004",  # <response> may be the user's own tag
    "matrix/fenced_json/002",  # a fence after other words is an example
    "class/stops_after_calls/016",  # `all` on the first line is only a word
    "class/functionary_recipients/010",
    "class/functionary_recipients/011",
    "class/functionary_recipients/013",
    "class/continued_thoughts/008",  # nothing but the name tells which marks end the thought
}


@every_row("cut", ["whole", "by char"])
@pytest.mark.parametrize("dialect", OURS)
def test_what_is_seen_is_enough_to_know_the_dialect(dialect, cut):
    cases = [
        {**case, "dialect": "auto"}
        for case in OURS[dialect]
        if is_hard(case) and case["id"] not in DISPUTED | NEEDS_ITS_NAME
    ]
    assert wrong(cases, cut) == {}


@every_row("dialect", OURS)
def test_every_case_of_the_matrix_is_read_right_where_recovery_is_a_choice(dialect):
    cases = [c for c in OURS[dialect] if not is_hard(c) and c["provenance"] == "authored"]
    assert wrong(cases, "by char") == {}


@pytest.mark.parametrize("dialect", OURS)
def test_a_cut_changes_nothing(dialect):
    for case in OURS[dialect]:
        whole = _said(read(case, "whole"))
        wrong_cuts = [cut for cut in CUTS[1:] if _said(read(case, cut)) != whole]
        assert wrong_cuts == [], case["id"]


def _said(reading):
    calls = [(call.name, call.arguments, call.raw) for call in reading.calls]
    return reading.content, reading.reasoning, calls


@pytest.mark.parametrize("cut", CUTS)
def test_the_recorded_cases_are_read_right(cut):
    if not THEIRS:
        pytest.skip("the recorded cases (../shared/cases/dialects.json) are not here")
    cases = [c for cases in THEIRS.values() for c in cases]
    assert wrong([c for c in cases if is_hard(c) and c["id"] not in DISPUTED], cut) == {}


def test_no_case_is_disputed_that_is_read_as_expected():
    if not THEIRS:
        pytest.skip("the recorded cases (../shared/cases/dialects.json) are not here")
    known = {case["id"]: case for cases in THEIRS.values() for case in cases}
    assert sorted(DISPUTED - known.keys()) == []
    assert [id for id in sorted(DISPUTED) if not faults_of(known[id], "whole")] == []
