"""When to ask again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.errors import KINDS
from toolbridge.core.messages import Problem
from toolbridge.policy.retry import hides_status, is_permanent, may_retry, wait

TRANSIENT = {
    "broken_call",
    "rejected",
    "rate_limited",
    "overloaded",
    "broken_wire",
    "truncated",
    "unreachable",
    "timed_out",
}


@pytest.mark.req("CL-05", "CL-09")
@every_row("kind", sorted(KINDS))
def test_only_what_passes_by_itself_is_worth_another_try(kind):
    assert is_permanent(Problem(kind, "x")) is (kind not in TRANSIENT)


def test_a_fault_that_only_settings_can_correct_is_not_retried():
    assert is_permanent(Problem("unreachable", "x", permanent=True, lasting=True))
    assert not is_permanent(Problem("unreachable", "x", permanent=True))


@every_row(
    ("status", "permanent"),
    [(400, True), (401, True), (403, True), (404, True), (413, True), (422, True), (0, False),
     (408, False), (409, False), (425, False), (429, True), (500, False), (502, False),
     (503, False), (529, False), (501, True), (505, True)],
)  # fmt: skip
def test_a_rejection_is_judged_by_its_status(status, permanent):
    assert is_permanent(Problem("rejected", "x", status=status)) is permanent


@pytest.mark.req("CL-05")
@given(st.sampled_from(sorted(KINDS)), st.integers(1, 9))
def test_nothing_is_repeated_once_content_was_sent(kind, attempt):
    assert not may_retry(Problem(kind, "x"), attempt=attempt, content_sent=True)


def test_there_are_three_tries_in_all():
    problem = Problem("overloaded", "x")
    tries = [may_retry(problem, attempt=n, content_sent=False) for n in (1, 2, 3, 4)]
    assert tries == [True, True, False, False]


@pytest.mark.parametrize(("seconds", "again"), [(0.0, True), (30.0, True), (31.0, False)])
def test_a_provider_that_wants_a_long_wait_is_left_to_the_client(seconds, again):
    problem = Problem("rate_limited", "x", retry_after=seconds)
    assert may_retry(problem, attempt=1, content_sent=False) is again


@pytest.mark.parametrize(("given", "waited"), [(20.0, 20.0), (0.0, 0.0), (-3.0, 0.0)])
def test_the_providers_own_wait_is_obeyed_exactly(given, waited):
    assert wait(Problem("overloaded", "x", retry_after=given), 3, 0.9) == waited


def test_waits_double_from_half_a_second_to_eight():
    waits = [wait(Problem("overloaded", "x"), attempt, 0.0) for attempt in range(1, 8)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_dice_take_away_at_most_half_of_a_wait(attempt, dice):
    problem = Problem("overloaded", "x")
    longest = wait(problem, attempt, 0.0)
    assert longest / 2 <= wait(problem, attempt, dice) <= longest <= 8.0


@pytest.mark.parametrize(
    ("retry_after", "left", "hides"),
    [(7.0, 5.0, True), (5.0, 5.0, True), (3.0, 5.0, False), (7.0, 0.0, False), (7.0, -1.0, False)],
)
def test_a_wait_across_the_first_byte_hides_the_status(retry_after, left, hides):
    problem = Problem("rate_limited", "x", retry_after=retry_after)
    assert hides_status(problem, retry_after, left) is hides
    assert not hides_status(Problem("overloaded", "x"), retry_after, left)
