"""What time it is somewhere."""

import pytest

from toolbridge.tools.context import ToolContext
from toolbridge.tools.registry import Registry
from toolbridge.tools.time import time_now

pytestmark = pytest.mark.req("TF-40")
REGISTRY = Registry([time_now(lambda: 1_900_000_000.9)])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [({}, "2030-03-17T17:46:40+00:00"), ({"tz": "Europe/Rome"}, "2030-03-17T18:46:40+01:00"),
     ({"tz": "Asia/Kolkata"}, "2030-03-17T23:16:40+05:30")],
)  # fmt: skip
async def test_the_time_is_told_in_a_zone(asked, expected):
    result = (await REGISTRY.call("time.now", asked, ToolContext())).result
    assert result == {
        "time": expected, "tz": asked.get("tz", "UTC"), "weekday": "Sunday", "unix": 1_900_000_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    "tz", ["Mars/Base", "../etc/passwd", "/etc/passwd", "Europe", "", "a\0b", 5]
)
async def test_a_zone_that_is_none_is_said(tz):
    assert (await REGISTRY.call("time.now", {"tz": tz}, ToolContext())).code == "invalid_arguments"


async def test_the_clock_is_the_system_s_unless_given():
    result = (await Registry([time_now()]).call("time.now", {}, ToolContext())).result
    assert result["unix"] > 1_700_000_000
