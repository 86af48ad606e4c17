import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.tables import every_row

from toolbridge.node.hosts.scoring import WEIGHTS, Factors, factors, pick, score


@pytest.mark.req("CB-19")
def test_hosts_are_ranked_by_stake_price_uptime_and_latency():
    best = Factors(stake=1.0, price=1.0, uptime=1.0, latency=1.0)
    without = {name: score(replace(best, **{name: 0.0})) for name in Factors.__struct_fields__}
    assert without == pytest.approx({"stake": 0.65, "price": 0.7, "uptime": 0.8, "latency": 0.85})
    weights = WEIGHTS["auto"]
    assert (weights.stake, weights.price, weights.uptime, weights.latency) == (0.35, 0.3, 0.2, 0.15)


@pytest.mark.parametrize("mode", WEIGHTS)
@given(st.integers(-1, 10**23), st.integers(-1, 10**6))
def test_a_score_lies_between_nothing_and_one(mode, stake, price):
    assert 0 <= score(factors(stake, price), mode) <= 1


@every_row("mode", WEIGHTS)
def test_weights_make_a_whole(mode):
    weights = WEIGHTS[mode]
    total = weights.stake + weights.price + weights.uptime + weights.latency
    assert total == pytest.approx(1)


def test_more_stake_and_a_lower_price_never_hurt():
    better, worse = factors(10**21, 500), factors(10**20, 5000)
    assert all(score(better, mode) > score(worse, mode) for mode in WEIGHTS)


def test_a_pick_follows_the_scores():
    dice = random.Random(7)
    picked = [pick([1.0, 3.0, 0.0], dice.random()) for _ in range(4000)]
    assert picked.count(1) / picked.count(0) == pytest.approx(3, rel=0.15)
    assert 2 not in picked


def test_hosts_without_a_score_are_equally_likely():
    assert [pick([0.0, 0.0], chance) for chance in (0.0, 0.49, 0.5, 0.99, 1.0)] == [0, 0, 1, 1, 1]
