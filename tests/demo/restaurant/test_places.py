"""A town that is always the same."""

import pytest
from tests.tables import every_row

from toolbridge.demo.restaurant.clock import ClockTime
from toolbridge.demo.restaurant.places import PLACES_SEARCH, town
from toolbridge.tools.context import ToolContext
from toolbridge.tools.registry import Registry

REGISTRY = Registry([PLACES_SEARCH])


async def ids(**asked):
    outcome = await REGISTRY.call("places.search", asked, ToolContext())
    assert outcome.code == "", outcome.message
    return [place["id"] for place in outcome.result]


@pytest.mark.req("TF-41")
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"query": "pizza"}, ["pl_001", "pl_002", "pl_003", "pl_004"]),
        ({"query": "Pizzas near me!", "radius_km": 3}, ["pl_001", "pl_002", "pl_003", "pl_004"]),
        ({"query": "pizza", "radius_km": 1}, ["pl_001"]),
        ({"query": "pizza", "radius_km": 50}, ["pl_001", "pl_002", "pl_003", "pl_004", "pl_010"]),
        ({"query": "pizza", "open_at": "19:00"}, ["pl_001", "pl_002", "pl_003"]),
        ({"query": "pizza", "open_at": "2030-05-06T19:00"}, ["pl_002", "pl_003"]),  # a Monday
        ({"query": "pizza", "open_at": "01:30"}, ["pl_003"]),
        ({"query": "italian pizza", "radius_km": 50, "limit": 2}, ["pl_001", "pl_010"]),
        ({"query": "open now", "radius_km": 0.5}, ["pl_006", "pl_001"]),
        ({"query": "café amélie"}, ["pl_006"]),
        ({"query": "space travel"}, []),
    ],
)
async def test_a_search_finds_what_fits_best_then_what_is_near(asked, expected):
    assert await ids(**asked) == expected


@pytest.mark.req("TF-41")
@pytest.mark.parametrize(
    "wrong",
    [
        {}, {"query": ""}, {"query": 7}, {"query": "x", "radius_km": 0}, {"query": "x", "limit": 0},
        {"query": "x", "open_at": "7pm"}, {"query": "x", "open_at": "2030-02-30T19:00"},
        {"query": "x" * 201},
    ],
)  # fmt: skip
async def test_wrong_arguments_are_said(wrong):
    outcome = await REGISTRY.call("places.search", wrong, ToolContext())
    assert outcome.code == "invalid_arguments"


@every_row(
    ("place", "minute", "day", "expected"),
    [
        ("pl_003", 15 * 60 + 59, "", False),
        ("pl_003", 16 * 60, "", True),
        ("pl_003", 119, "", True),
        ("pl_003", 120, "", False),
        ("pl_009", 23 * 60 + 59, "", True),
        ("pl_009", 0, "", False),
        ("pl_011", 60, "2030-05-05", True),  # the night that Saturday began
        ("pl_011", 60, "2030-05-06", False),  # the night that Sunday would have begun
        ("pl_011", 21 * 60, "2030-05-05", False),
    ],
)
def test_a_night_belongs_to_the_evening_before(place, minute, day, expected):
    assert town()[place].is_open(ClockTime(minute, day)) is expected
