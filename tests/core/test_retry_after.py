import pytest
from tests.tables import every_row

from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import DEFAULT_WAIT, maybe_wait, read_retry_after, retry_headers


@every_row(
    ("headers", "seconds"),
    [
        ({"Retry-After": "20"}, 20.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_server_asks_for_is_read(headers, seconds):
    assert read_retry_after(headers) == seconds


@every_row(
    ("problem", "wait"),
    [
        (Problem("rate_limited", "", retry_after=0.0), 0.0),
        (Problem("rate_limited", ""), DEFAULT_WAIT),
        (Problem("overloaded", ""), DEFAULT_WAIT),
        (Problem("rejected", "", retry_after=7.0), 7.0),
        (Problem("rejected", ""), None),
    ],
)
def test_a_temporary_problem_has_a_wait(problem, wait):
    assert maybe_wait(problem) == wait


@pytest.mark.parametrize(("wait", "headers"), [(1.2, {"retry-after": "2"}), (None, {})])
def test_the_header_has_whole_seconds(wait, headers):
    assert retry_headers(wait) == headers
