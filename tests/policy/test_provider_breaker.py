"""The circuit breaker, with time passed in."""

from hypothesis import given
from hypothesis import strategies as st

from toolbridge.core.messages import Problem
from toolbridge.policy.provider_breaker import (
    FAILURES,
    FIRST_REST,
    LONGEST_REST,
    ProviderBreaker,
    shows_outage,
)


def opened(now: float = 0.0) -> ProviderBreaker:
    breaker = ProviderBreaker()
    for _ in range(FAILURES):
        breaker.fail(now)
    return breaker


def test_it_opens_after_failures_in_a_row():
    breaker = ProviderBreaker()
    for _ in range(FAILURES - 1):
        breaker.fail(0.0)
    assert breaker.lets_through(0.0)
    breaker.succeed()
    for _ in range(FAILURES - 1):
        breaker.fail(0.0)
    assert breaker.state(0.0) == "closed"
    breaker.fail(0.0)
    assert breaker.state(0.0) == "open"
    assert not breaker.lets_through(0.0)


def test_after_its_rest_one_request_at_a_time_is_a_probe():
    breaker = opened()
    assert not breaker.lets_through(FIRST_REST - 0.1)
    assert breaker.state(FIRST_REST) == "half_open"
    assert breaker.lets_through(FIRST_REST)
    assert breaker.begin(FIRST_REST)
    assert not breaker.lets_through(FIRST_REST)
    assert not breaker.begin(FIRST_REST)
    breaker.answered()
    assert breaker.state(FIRST_REST) == "closed"
    assert breaker.lets_through(FIRST_REST)


def test_a_probe_whose_client_leaves_makes_room_for_another():
    breaker = opened()
    assert breaker.begin(FIRST_REST)
    breaker.leave()
    assert breaker.lets_through(FIRST_REST)


def test_each_failed_probe_doubles_the_rest_up_to_a_bound():
    breaker, now, rests = opened(), 0.0, []
    for _ in range(12):
        rests.append(breaker.until - now)
        now = breaker.until
        assert breaker.begin(now)
        breaker.fail(now)
    assert rests[:3] == [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]
    assert max(rests) == rests[-1] == LONGEST_REST


def test_requests_that_were_sent_before_do_not_prolong_the_rest():
    breaker = opened()
    until = breaker.until
    breaker.fail(1.0)
    breaker.fail(2.0)
    assert breaker.until == until


def test_a_first_content_does_not_hide_failures_of_a_closed_breaker():
    breaker = ProviderBreaker()
    for _ in range(FAILURES):
        breaker.answered()
        breaker.fail(0.0)  # it broke off in the middle
    assert breaker.state(0.0) == "open"


def test_only_outages_count():
    assert shows_outage(Problem("unreachable", "x"))
    assert shows_outage(Problem("overloaded", "x", status=529))
    assert not shows_outage(Problem("rate_limited", "x", status=429))
    assert not shows_outage(Problem("rejected", "x", status=400))


@given(st.lists(st.sampled_from(["fail", "succeed", "begin", "leave", "answered", "wait"])))
def test_it_is_never_shut_for_longer_than_the_bound(steps):
    breaker, now = ProviderBreaker(), 0.0
    for step in steps:
        now += 1.0
        if step in {"fail", "begin"}:
            getattr(breaker, step)(now)
        elif step == "wait":
            now += 10.0
        else:
            getattr(breaker, step)()
        assert breaker.until <= now + LONGEST_REST
    breaker.leave()
    assert breaker.lets_through(now + LONGEST_REST)


STEPS = st.sampled_from(["begin", "answered", "succeed", "fail", "leave"])


@given(st.lists(st.tuples(STEPS, st.floats(0, 1000)), max_size=30))
def test_a_closed_breaker_without_failures_needs_no_call(steps):
    """`provider_health.RequestInFlight` leaves these calls out."""
    breaker, now = ProviderBreaker(), 0.0
    for step, seconds in steps:
        now += seconds
        call = getattr(breaker, step)
        call(now) if step in {"begin", "fail"} else call()
        before = dict(vars(breaker))
        if not breaker.until:
            assert breaker.lets_through(now)
            assert breaker.begin(now) is False
            assert vars(breaker) == before
            if not breaker.failures:
                breaker.succeed()
                assert vars(breaker) == before
