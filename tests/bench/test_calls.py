"""Calls per chunk are those of a chunk that the gateway reads by itself, also on a busy machine."""

from collections import Counter

import pytest

from bench import calls
from bench.calls import APART, GAPS, READ, SHORT


class Mock:
    def configure(self, *, chunks, burst, gap):
        assert burst == 1
        self.chunks, self.gap = chunks, gap


class Gateway:
    """Joins chunks that arrive in less than `pause` µs: one read of two takes 20 calls, of one 11."""

    def __init__(self, mock, pause):
        self.mock, self.pause, self.asked = mock, pause, 0

    def per_request(self, _body, requests):
        assert requests > 1
        self.asked += 1
        joined = self.mock.gap < self.pause
        reads = self.mock.chunks // (2 if joined else 1)
        return Counter({READ: reads, "others": 300 + reads * (19 if joined else 10)})


def test_chunks_that_are_read_together_are_measured_again_with_a_longer_gap():
    mock = Mock()
    gateway = Gateway(mock, pause=GAPS[2])
    assert calls.apart(mock, gateway, b"") == 11
    assert (mock.gap, mock.chunks) == (GAPS[2], APART)
    assert gateway.asked == 6


def test_where_chunks_never_arrive_apart_the_figure_is_not_too_low():
    mock = Mock()
    assert calls.apart(mock, Gateway(mock, pause=GAPS[-1] + 1), b"") == 20


def test_a_function_with_another_name_is_an_error_and_no_figure():
    with pytest.raises(RuntimeError, match="has it another name now"):
        calls.per_read(Counter(others=SHORT), Counter(others=APART))
