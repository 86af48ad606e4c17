"""The garbage collector runs while no request does."""

import gc

import pytest

from toolbridge.server import garbage


@pytest.fixture
def collector(monkeypatch):
    """Run a test as in a gateway's own process, and restore the settings of the suite."""
    monkeypatch.setattr(garbage._Policy, "applies", True)
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    gc.enable()
    gc.collect()
    yield
    gc.set_threshold(*thresholds)
    if not enabled:
        gc.disable()


class Ring:
    """An object that only the collector frees."""

    freed = 0

    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        Ring.freed += 1


def test_an_idle_gateway_frees_what_is_left_of_requests(collector):
    gc.set_threshold(10**9, 10, 10)
    Ring.freed = 0
    for _ in range(garbage._WORTH):
        Ring()
    garbage.collect_when_idle(1)
    assert Ring.freed == 0, "a request runs"
    garbage.collect_when_idle(0)
    assert Ring.freed == garbage._WORTH


def test_few_objects_are_not_worth_it(collector):
    Ring.freed = 0
    Ring()
    garbage.collect_when_idle(0)
    assert Ring.freed == 0


def test_running_requests_raise_the_threshold(collector):
    garbage.collect_when_idle(1000)
    assert gc.get_threshold()[0] >= 300_000
    garbage.collect_when_idle(0)
    assert gc.get_threshold()[0] == 50_000


def test_a_process_that_is_no_gateway_keeps_its_settings():
    before = gc.get_threshold()
    garbage.collect_when_idle(1000)
    assert gc.get_threshold() == before
