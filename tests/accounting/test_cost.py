"""What an answer costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.accounting.cost import Pricing, Rates, cost_of, price
from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.errors import Overloaded
from toolbridge.core.fold import collect
from toolbridge.core.usage import Cost, Usage

NOW = 1_794_700_000.0  # in November 2026
RATES = Rates(3.0, 15.0, 0.3, 3.75)
counts = st.integers(0, 10**6)


@pytest.mark.req("ZG-24")
def test_tokens_times_rate_per_million_and_their_sum():
    usage = Usage(input=1_000_000, output=100_000, cache_read=2_000_000, cache_write=400_000)
    cost = price(usage, "any", rates=RATES, at=NOW)
    parts = (cost.input, cost.output, cost.cache_read, cost.cache_write, cost.total)
    assert parts == pytest.approx((3.0, 1.5, 0.6, 1.5, 6.6))


@pytest.mark.req("ZG-24")
@given(counts, counts, counts, counts)
def test_the_total_is_the_sum_of_the_parts(input, output, read, write):
    cost = cost_of(Usage(input, output, read, write), RATES)
    assert cost.total == pytest.approx(
        cost.input + cost.output + cost.cache_read + cost.cache_write
    )


@every_row(
    ("rates", "cost"),
    [
        (Rates(2, 4), Cost(2, 4, 2, 2, 10)),
        (Rates(2, 4, 0), Cost(2, 4, 0, 2, 8)),
        (Rates(2, 4, 1, 8), Cost(2, 4, 1, 8, 15)),
        (Rates(2, 4, 1, 8, 16), Cost(2, 4, 1, 12, 19)),
    ],
)
def test_a_cache_rate_that_is_not_given_is_the_one_of_input(rates, cost):
    usage = Usage(10**6, 10**6, 10**6, 10**6, cache_write_long=500_000)
    assert cost_of(usage, rates) == cost


def test_the_list_is_asked_where_the_configuration_is_silent():
    usage = Usage(input=1_000_000, output=1_000_000, cache_read=1_000_000)
    cost = price(usage, "claude-opus-5-5", "anthropic", at=NOW)
    assert cost == Cost(4, 20, 0.2, 0, pytest.approx(24.2))


def test_the_same_model_costs_what_it_costs_at_that_time():
    usage = Usage(input=1_000_000)
    before = price(usage, "gemini-4-argon", "google", at=NOW)
    after = price(usage, "gemini-4-argon", "google", at=NOW + 30 * 86_400)
    assert after.total == pytest.approx(2 * before.total)


def test_an_unknown_price_is_unknown_and_not_nothing():
    assert price(Usage(input=5), "qwen3:8b", "ollama", at=NOW) is None


def _answer(*usages, fail=False):
    draft = Draft()
    said = draft.start(model="m")
    for usage in usages:
        said += draft.usage(usage)
    said += draft.text("hi")
    end = draft.fail(Overloaded("busy").problem) if fail else draft.finish("end")
    return said + end


def _priced(events, stage):
    return [out for event in events for out in stage.feed(event)] + stage.close()


FIRST, LAST = Usage(input=1_000_000), Usage(input=1_000_000, output=1_000_000)


@pytest.mark.req("ZG-23")
@pytest.mark.parametrize("fail", [False, True])
def test_every_count_and_the_end_carry_their_cost(fail):
    events = _priced(_answer(FIRST, LAST, fail=fail), Pricing("m", rates=RATES, at=NOW))
    reported = [event.usage.cost.total for event in events if isinstance(event, ev.UsageReported)]
    assert reported == [3.0, 18.0]
    assert collect(events).usage.cost == Cost(3.0, 15.0, 0, 0, 18.0)
    assert collect(events).text == "hi"


@pytest.mark.req("ZG-23")
def test_nothing_but_the_cost_is_changed():
    events = _answer(FIRST, LAST)
    unpriced = _priced(events, Pricing("nobody-knows-this", "ollama", at=NOW))
    assert unpriced == events


def test_a_cost_that_the_provider_reports_stands_unless_rates_are_configured():
    own = Usage(input=1_000_000, cost=Cost(input=1.0, total=1.0))
    assert collect(_priced(_answer(own), Pricing("m", at=NOW))).usage == own
    configured = _priced(_answer(own), Pricing("m", rates=RATES, at=NOW))
    assert collect(configured).usage.cost == Cost(input=3.0, total=3.0)
