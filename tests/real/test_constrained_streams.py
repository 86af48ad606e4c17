"""Structured streams from SmolLM2-135M behind llama.cpp: valid at the first try, in mode `auto`.

The model is far too small to keep the rules of any format by itself; the server's constraint does.
"""

import time

import pytest
from tests.peers import gateway
from tests.real.llamacpp import engine, smollm2_path
from tests.streams import ask

from toolbridge.config import Config, ProviderConfig

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

CITIES = ("Paris", "Rome", "Oslo", "Madrid", "Berlin", "Vienna", "Lisbon", "Athens")
FACT = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "country": {"type": "string"},
        "population": {"type": "integer", "minimum": 0},
        "coastal": {"type": "boolean"},
    },
    "required": ["city", "country", "population", "coastal"],
}
NOTE = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "kind": {"enum": ["sight", "food"]}},
    "required": ["title", "kind"],
}
KINDS = {
    "result": {"schemas": {"Fact": FACT}, "result": "Fact"},
    "objects": {"schemas": {"Fact": FACT, "Note": NOTE}, "result": "Fact"},
    "tools": {"schemas": {"Fact": FACT}, "result": "Fact", "tools": ["time.now"]},
}


@pytest.fixture(scope="module")
def smollm2():
    with engine("--ctx", "8192", "--parallel", "1", model=smollm2_path()) as server:
        yield server


async def tried(server, mode: str, kind: str, cities=CITIES) -> tuple[int, float]:
    """Return how many streams were valid at the first try, and the seconds for one."""
    provider = ProviderConfig(url=f"{server.url}/v1")
    config = Config(log="off", map={"default": "llamacpp/tiny"}, providers={"llamacpp": provider})
    valid, began = 0, time.monotonic()
    async with gateway(config) as (url, _):
        for city in cities:
            asked = {"prompt": f"Tell me about {city}.", "mode": mode, "max_tokens": 300,
                     "temperature": 0, "seed": 1, "repair_retries": 0, "frame_timeout_ms": 60_000,
                     **KINDS[kind]}  # fmt: skip
            events = await ask(url, asked)
            assert events[-1].name == "done"
            ends = [e.data for e in events if e.name in {"result.end", "json.end"}]
            valid += bool(ends) and all("status" not in end for end in ends)
    return valid, (time.monotonic() - began) / len(cities)


@pytest.mark.parametrize("kind", ["result", "objects"])
async def test_eight_streams_in_mode_auto_are_valid_at_the_first_try(smollm2, kind):
    valid, seconds = await tried(smollm2, "auto", kind)
    print(f"SmolLM2 {kind}: auto {valid}/8 valid at the first try, {seconds:.2f} s each")
    assert valid == 8


async def test_with_tools_that_its_template_does_not_have_the_result_is_valid_too(smollm2):
    valid, seconds = await tried(smollm2, "auto", "tools", CITIES[:3])
    print(f"SmolLM2 tools: auto {valid}/3 valid at the first try, {seconds:.2f} s each")
    assert valid >= 2


async def test_the_other_modes_for_comparison(smollm2):
    for mode, cities in (("sentinel", CITIES[:3]), ("native", CITIES)):
        valid, seconds = await tried(smollm2, mode, "result", cities)
        print(
            f"SmolLM2 result: {mode} {valid}/{len(cities)} valid at the first try, {seconds:.2f} s each"
        )
        if mode == "native":
            assert valid == 8
