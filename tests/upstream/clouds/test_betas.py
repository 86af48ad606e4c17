"""Betas that a cloud rejects are left out from then on, for the model that rejected them."""

import pytest

from toolbridge.core.messages import Problem
from toolbridge.upstream.clouds.betas import BetaFilter

KNOWN, NEW, OTHER = "context-1m-2025-08-07", "brand-new-2026-01-01", "other-2026-02-02"
SENT = {"anthropic-beta": f"{KNOWN}, {NEW},{OTHER}", "x-own": "1"}
UNNAMED = Problem("invalid_request", "400: invalid beta flag")


def named(*values: str) -> Problem:
    text = (
        f"Unexpected value(s) {', '.join(f'`{v}`' for v in values)} for the `anthropic-beta` header"
    )
    return Problem("invalid_request", text)


def test_nothing_changes_before_a_rejection():
    betas = BetaFilter()
    assert betas.apply("m", SENT) == SENT
    assert betas.learn("m", Problem("invalid_request", "max_tokens is missing")) == ""
    assert betas.apply("m", SENT) == SENT


def test_an_unnamed_value_costs_first_the_undocumented_ones_and_then_all():
    betas = BetaFilter()
    assert betas.learn("m", UNNAMED) == "those that its documentation does not have"
    assert betas.apply("m", SENT) == {"x-own": "1", "anthropic-beta": KNOWN}
    assert betas.learn("m", UNNAMED) == "all"
    assert betas.apply("m", SENT) == {"x-own": "1"}
    assert betas.learn("m", UNNAMED) == ""  # there is nothing left to leave out
    assert betas.apply("m", {"x-own": "1"}) == {"x-own": "1"}
    assert betas.apply("another", SENT) == SENT


def test_named_values_are_left_out_together_with_those_that_were_named_before():
    betas = BetaFilter()
    assert betas.learn("m", named(OTHER, NEW)) == f"{NEW}, {OTHER}"
    assert betas.apply("m", SENT) == {"x-own": "1", "anthropic-beta": KNOWN}
    assert betas.learn("m", named(NEW)) == ""
    assert betas.learn("m", named(KNOWN)) == KNOWN
    assert betas.apply("m", SENT) == {"x-own": "1"}
    assert betas.apply("another", SENT) == SENT


@pytest.mark.parametrize("problem", [UNNAMED, named(NEW)])
def test_names_of_models_that_clients_invent_do_not_fill_the_memory(problem):
    betas = BetaFilter()
    for number in range(1000):
        betas.learn(f"m{number}", problem)
    assert betas.apply("m256", SENT) != SENT
    assert betas.apply("m257", SENT) == SENT
    assert betas.learn("m0", problem) == ""
