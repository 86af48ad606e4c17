"""Estimates that learn from what the providers count."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.accounting.calibrate import Calibration, RatioState


def taught(ratio, *, calls=10, noise=0.02, seed=1, learner=None):
    learner = learner or Calibration()
    dice = Random(seed)
    for _ in range(calls):
        estimated = dice.randint(500, 60_000)
        learner.learn("m", estimated, round(estimated * ratio * dice.gauss(1, noise)))
    return learner


@every_row("ratio", [0.6, 0.9, 1.0, 1.3, 2.0])
@every_row("seed", range(20))
def test_after_ten_calls_an_estimate_is_less_than_two_per_cent_off(ratio, seed):
    count, how = taught(ratio, seed=seed).apply("m", 10_000)
    assert how == "calibrated"
    assert abs(count - 10_000 * ratio) < 0.02 * 10_000 * ratio


def test_an_unknown_model_is_estimated_and_so_is_one_that_was_hardly_seen():
    learner = taught(1.5, calls=2)
    assert learner.apply("other", 100) == (100, "estimated")
    assert learner.apply("m", 100) == (100, "estimated")
    assert taught(1.5, calls=3).apply("m", 100)[1] == "calibrated"


@every_row("reported", [0, 10, 199, 5_001, 10**9])
def test_a_count_that_no_tokenizer_gives_teaches_nothing(reported):
    learner = Calibration()
    for _ in range(10):
        learner.learn("m", 1000, reported)
    assert len(learner) == 0


@pytest.mark.parametrize("estimated", [0, -5])
def test_an_estimate_of_nothing_teaches_nothing(estimated):
    learner = Calibration()
    learner.learn("m", estimated, 100)
    assert len(learner) == 0


def test_a_report_without_the_cached_prefix_does_not_poison_the_ratio():
    learner = taught(1.2)
    before = learner.apply("m", 10_000)
    for _ in range(2):
        learner.learn("m", 10_000, 4_000)
    assert learner.apply("m", 10_000) == before


def test_a_bad_first_report_is_forgotten_soon():
    learner = Calibration()
    learner.learn("m", 10_000, 2_500)
    taught(1.2, learner=learner)
    assert abs(learner.apply("m", 10_000)[0] - 12_000) < 240


def test_a_model_that_changes_its_tokenizer_is_followed():
    learner = taught(1.3, learner=taught(1.0, calls=50))
    assert abs(learner.apply("m", 10_000)[0] - 13_000) < 260


def test_only_the_models_that_were_used_last_are_remembered():
    learner = Calibration(models=2)
    for _ in range(3):
        for model in ("a", "b"):
            learner.learn(model, 100, 150)
    learner.learn("a", 100, 150)
    learner.learn("c", 100, 150)
    assert len(learner) == 2
    assert learner.apply("a", 100) == (150, "calibrated")
    assert learner.apply("b", 100) == (100, "estimated")


@given(st.lists(st.tuples(st.integers(-5, 10**6), st.integers(0, 10**6)), max_size=30))
def test_no_row_of_reports_leaves_the_bounds(reports):
    learner = Calibration()
    for estimated, actual in reports:
        learner.learn("m", estimated, actual)
    assert 2_000 <= learner.apply("m", 10_000)[0] <= 50_000


def test_something_is_never_counted_as_nothing():
    learner = Calibration()
    for _ in range(5):
        learner.learn("m", 1000, 300)
    assert learner.apply("m", 1) == (1, "calibrated")
    assert learner.apply("m", 0) == (0, "calibrated")


def test_another_process_goes_on_with_the_ratios_of_the_first():
    first, second = Calibration(), Calibration(models=2)
    for _ in range(4):
        first.learn("a", 100, 150)
    second.learn("a", 100, 300)
    second.adopt(first.states())
    assert second.states() == first.states()
    assert second.apply("a", 100) == first.apply("a", 100) == (150, "calibrated")
    first.adopt({"a": RatioState(9.0, 1, (9.0,), (1,))})  # fewer reports
    assert first.apply("a", 100) == (150, "calibrated")
    second.adopt({str(n): RatioState(2.0, 3, (2.0,) * 3, (9,)) for n in range(9)})
    assert len(second) == 2
