"""The price list, as numbers."""

import subprocess
import sys
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from genai_prices import Usage as TheirUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ConditionalPrice, ModelPrice, TimeOfDateConstraint
from tests.tables import every_row

from toolbridge.accounting.cost import price
from toolbridge.accounting.tariff import Period, Rates, Tariff, _period, tariff
from toolbridge.core.usage import Usage

TIMES = [
    datetime(2025, 3, 1, 0, 29, 59, tzinfo=UTC),
    datetime(2026, 11, 15, 9, 0, tzinfo=UTC),
    datetime(2026, 11, 15, 17, 0, tzinfo=UTC),
    datetime(2026, 12, 1, 0, 0, tzinfo=UTC),
]
USAGES = [
    Usage(input=1_000, output=500, cache_read=2_000, cache_write=300, cache_write_long=100),
    Usage(input=250_000, output=9_000, cache_read=100_000),
]
# Sold by other units than the ones of `Usage`.
OTHER = {"requests_kcount", "output_reasoning_mtok"}


def _is_found(provider, model):
    try:
        return get_snapshot().find_provider_model(model, None, provider, None) is not None
    except LookupError:  # some entries go by other names than their own
        return False


def _models():
    for provider in get_snapshot().providers:
        for model in provider.models:
            prices = model.prices if isinstance(model.prices, list) else [model]
            keys = {key for dated in prices for key in vars(dated.prices)}
            if (
                {"input_mtok", "output_mtok"} <= keys
                and not keys & OTHER
                and _is_found(provider.id, model.id)
            ):
                yield provider.id, model.id


@pytest.mark.req("ZG-24")
@pytest.mark.parametrize("when", TIMES)
def test_every_model_costs_what_the_list_itself_calculates(when):
    wrong, compared = [], 0
    for provider, model in _models():
        for usage in USAGES:
            theirs = calc_price(
                TheirUsage(
                    input_tokens=usage.input_total,
                    output_tokens=usage.output,
                    cache_read_tokens=usage.cache_read,
                    cache_write_tokens=usage.cache_write,
                    cache_write_1h_tokens=usage.cache_write_long,
                ),
                model,
                provider_id=provider,
                genai_request_timestamp=when,
            )
            ours = price(usage, model, provider, at=when.timestamp())
            compared += 1
            if ours is None or ours.total != pytest.approx(float(theirs.total_price)):
                wrong.append((provider, model, ours, theirs.total_price))
    assert wrong == []
    assert compared > 3000


@pytest.mark.parametrize(
    ("model", "provider"),
    [("no-such-model", ""), ("qwen3:8b", "ollama"), ("claude-sonnet-4-5", "my-own-place")],
)
def test_what_the_list_does_not_have_has_no_tariff(model, provider):
    assert tariff(model, provider) is None


def test_a_model_that_is_not_sold_by_the_token_has_no_tariff():
    assert tariff("whisper-large-v3", "groq") is None


def test_the_mark_of_a_large_context_is_no_part_of_the_name():
    assert tariff("claude-opus-5-5[1m]", "anthropic") == tariff("claude-opus-5-5", "anthropic")


@every_row(
    ("period", "open_at"),
    [
        (Period((), opens=3600, closes=7200), {3600, 7199}),
        (Period((), opens=7200, closes=3600), {0, 3599, 7200, 86_399}),
        (Period((), since=1), set()),
        (Period(()), {0, 3599, 3600, 7199, 7200, 86_399}),
    ],
)
def test_a_period_holds_from_its_opening_to_its_closing(period, open_at):
    seconds = (0, 3599, 3600, 7199, 7200, 86_399)
    assert {second for second in seconds if period.holds(second)} == open_at


def test_hours_of_another_zone_are_read_as_utc():
    beijing = timezone(timedelta(hours=8))
    hours = TimeOfDateConstraint(time(0, 30, tzinfo=beijing), time(16, 30, 15))
    period = _period(ConditionalPrice(hours, prices=ModelPrice(input_mtok=Decimal(1))))
    assert (period.opens, period.closes) == (59_400, 59_415)


def test_the_last_period_that_holds_counts_and_the_first_where_none_does():
    early, late = Rates(1, 1), Rates(2, 2)
    dated = Tariff((Period(((0, early),), since=10), Period(((0, late),), since=20)))
    assert [dated.rates(day * 86_400, 0) for day in (5, 15, 25)] == [early, early, late]


def test_a_step_holds_above_its_start_only():
    low, high = Rates(1, 1), Rates(2, 2)
    stepped = Tariff((Period(((200, high), (0, low))),))
    assert [stepped.rates(0, total) for total in (0, 200, 201)] == [low, low, high]


def test_the_list_is_not_loaded_before_somebody_asks():
    code = "import sys, toolbridge.accounting.cost; sys.exit('genai_prices' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
