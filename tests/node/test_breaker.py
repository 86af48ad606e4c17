from tests.tables import every_row

from toolbridge.core.messages import Problem
from toolbridge.node.session.breaker import Breaker

BROKEN = Problem("timed_out", "silent")


def test_one_failure_is_forgiven():
    breaker = Breaker()
    breaker.fail(BROKEN, 0)
    assert breaker.wait(0) == 0


def test_two_in_a_row_make_a_node_rest():
    breaker = Breaker(rest=60)
    breaker.fail(BROKEN, 0)
    breaker.fail(BROKEN, 10)
    assert breaker.wait(10) == 60
    assert breaker.wait(69) == 1
    assert breaker.wait(70) == 0


def test_a_success_between_them_counts():
    breaker = Breaker()
    breaker.fail(BROKEN, 0)
    breaker.succeed()
    breaker.fail(BROKEN, 1)
    assert breaker.wait(1) == 0


def test_the_first_try_after_the_rest_decides():
    breaker = Breaker(rest=60)
    breaker.fail(BROKEN, 0)
    breaker.fail(BROKEN, 0)
    breaker.fail(BROKEN, 100)
    assert breaker.wait(100) == 60


@every_row("kind", ["context_overflow", "rejected", "aborted", "unsupported"])
def test_a_request_that_cannot_be_served_is_not_the_nodes_fault(kind):
    breaker = Breaker(limit=1)
    breaker.fail(Problem(kind, "no"), 0)
    assert breaker.wait(0) == 0


def test_a_busy_node_is_left_alone_for_as_long_as_it_says():
    breaker = Breaker()
    breaker.fail(Problem("rate_limited", "busy", retry_after=20), 5)
    assert breaker.wait(5) == 20
    assert breaker.wait(25) == 0
