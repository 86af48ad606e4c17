"""The library in front of every API, over real sockets."""

import asyncio
from itertools import groupby

import msgspec
import pytest
from tests.sdk.places import ANSWERS, place, script

import toolbridge
from toolbridge import AsyncClient, Client
from toolbridge.config import ModelConfig


def look(city: str) -> str:
    """Look at a city."""
    return city


EVERY = pytest.mark.parametrize("api", sorted(ANSWERS))


@EVERY
@pytest.mark.req("ZG-07", "ZG-08", "ZG-09", "ZG-31", "ZG-33")
async def test_a_call_comes_out_whole(api):
    async with place(api) as (_, config), AsyncClient(config) as client:
        events = [event async for event in client.stream("there/m", "Look at Paris", tools=[look])]
    assert isinstance(events[0], toolbridge.Started)
    assert isinstance(events[-1], toolbridge.Finished)
    message = events[-1].message
    assert message.text == "Looking."
    assert [(call.name, call.arguments) for call in message.calls] == [("look", {"city": "Paris"})]
    assert message.stop == "tool_use"
    assert message == toolbridge.collect(events)


@EVERY
@pytest.mark.req("ZG-23", "ZG-24")
async def test_every_count_has_its_cost(api):
    async with place(api) as (_, config), AsyncClient(config) as client:
        events = [event async for event in client.stream("there/m", "Look", tools=[look])]
    counts = [event.usage for event in events if isinstance(event, toolbridge.UsageReported)]
    assert counts
    if api in {"anthropic", "gemini"}:  # counts that come in two steps
        assert len(counts) == 2
    for usage in [*counts, events[-1].message.usage]:
        assert usage.cost.input == usage.input * 2.0 / 1e6
        assert usage.cost.output == usage.output * 10.0 / 1e6
        assert usage.cost.cache_read == usage.cache_read * 0.5 / 1e6
        parts = usage.cost.input + usage.cost.output + usage.cost.cache_read
        assert usage.cost.total == pytest.approx(parts + usage.cost.cache_write)
    assert (counts[-1].input, counts[-1].output) == (100, 30)


@EVERY
async def test_the_blocking_client_tells_the_same(api):
    def tell(config):
        with Client(config) as client:
            return list(client.stream("there/m", "Look", tools=[look]))

    async with place(api) as (_, config), AsyncClient(config) as client:
        awaited = [event async for event in client.stream("there/m", "Look", tools=[look])]
        blocked = await asyncio.to_thread(tell, config)
    kinds = [[kind for kind, _ in groupby(map(type, told))] for told in (blocked, awaited)]
    assert kinds[0] == kinds[1]
    assert blocked[-1].message.text == awaited[-1].message.text


def shape_of(event) -> tuple:
    return event.type, getattr(event, "content_index", None)


@EVERY
@pytest.mark.req("ZG-06", "ZG-19", "ZG-36")
async def test_pi_hears_starts_deltas_and_ends(api):
    async with place(api) as (_, config), AsyncClient(config) as client:
        answer = toolbridge.stream("there/m", "Look", tools=[look], client=client)
        events = [event async for event in answer]
    assert shape_of(events[0]) == ("start", None)
    # Pieces that the network delivers together may be told as one.
    texts = [event for event in events if event.type.startswith("text")]
    assert [shape for shape, _ in groupby(map(shape_of, texts))] == [
        ("text_start", 0), ("text_delta", 0), ("text_end", 0),
    ]  # fmt: skip
    assert "".join(event.delta for event in texts[1:-1]) == texts[-1].content == "Looking."
    calls = [event for event in events if event.type.startswith("toolcall")]
    assert calls[0].type == "toolcall_start"
    assert {event.type for event in calls[1:-1]} == {"toolcall_delta"}
    assert {event.content_index for event in calls} == {1}
    assert calls[-1].tool_call.arguments == {"city": "Paris"}
    assert calls[0].partial.content[1].name == "look"
    assert (events[-1].type, events[-1].reason) == ("done", "toolUse")
    assert events[-1].message == answer.message
    assert events[-1].message.usage.cost.total > 0


@EVERY
@pytest.mark.req("ZG-34")
async def test_an_answer_that_breaks_off_is_a_value(api):
    spoken = next(at for at, piece in enumerate(ANSWERS[api]) if "ing." in piece) + 1
    cut = script(api, ANSWERS[api][:spoken])
    async with place(api, cut) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "Look", tools=[look])
        events = [event async for event in stream]
    assert isinstance(events[-1], toolbridge.Failed)
    assert events[-1].problem.kind in {"truncated", "broken_wire"}
    assert stream.message.stop == "error"
    assert stream.message.text == "Looking."
    assert stream.message.problem == events[-1].problem


@pytest.mark.req("ZG-28", "ZG-29", "ZG-30")
@pytest.mark.parametrize(
    ("api", "quirks", "options", "expected"),
    [
        ("openai_responses", {"openai": True}, {"session_id": "s"}, {"prompt_cache_key": "s"}),
        ("openai_responses", {"openai": True}, {"session_id": "s", "cache_retention": "long"},
         {"prompt_cache_key": "s", "prompt_cache_retention": "24h"}),
        ("openai_responses", {}, {"session_id": "s", "cache_retention": "long"},
         {"prompt_cache_key": "s"}),
        ("openai_responses", {"openai": True}, {"session_id": "s", "cache_retention": "none"}, {}),
        ("openai_chat", {"prompt_cache_key": True}, {"session_id": "s", "cache_retention": "long"},
         {"prompt_cache_key": "s", "prompt_cache_retention": "24h"}),
        ("openai_chat", {}, {"session_id": "s", "cache_retention": "long"}, {}),
        ("openai_chat", {"prompt_cache_key": True}, {"session_id": "s", "cache_retention": "none"},
         {}),
    ],
)  # fmt: skip
async def test_session_and_retention_reach_the_places_that_keep_prompts(
    api, quirks, options, expected
):
    async with place(api, quirks=quirks) as (server, config), AsyncClient(config) as client:
        message = await client.complete("there/m", "Look", tools=[look], **options)
    assert message.problem is None
    sent = server.heard[-1].json
    names = ("prompt_cache_key", "prompt_cache_retention")
    assert {name: sent[name] for name in names if name in sent} == expected


@pytest.mark.req("ZG-30")
@pytest.mark.parametrize(
    ("retention", "mark"),
    [
        (None, {"type": "ephemeral"}),
        ("short", {"type": "ephemeral"}),
        ("long", {"type": "ephemeral", "ttl": "1h"}),
        ("none", None),
    ],
)
async def test_anthropic_keeps_what_is_marked(retention, mark):
    options = {} if retention is None else {"cache_retention": retention}
    async with place("anthropic") as (server, config), AsyncClient(config) as client:
        await client.complete("there/m", "Look", system="Be brief.", **options)
    sent = server.heard[-1].json
    (system,) = sent["system"] if isinstance(sent["system"], list) else [{}]
    last = sent["messages"][-1]["content"]
    user = {} if isinstance(last, str) else last[-1]
    found = [part.get("cache_control") for part in (system, user)]
    wanted = [mark, mark]
    assert [drop_default(item) for item in found] == wanted


def drop_default(mark: dict | None) -> dict | None:
    """Five minutes may be said or left unsaid."""
    if mark and mark.get("ttl") == "5m":
        return {"type": mark["type"]}
    return mark


@pytest.mark.req("ZG-25")
@pytest.mark.parametrize(
    ("most", "options", "sent"),
    [
        (0, {}, 32_000),
        (64_000, {}, 21_333),
        (128_000, {}, 32_000),
        (64_000, {"max_tokens": 50_000}, 50_000),
    ],
)
async def test_anthropic_may_write_a_third_of_what_it_can_unless_told(most, options, sent):
    async with place("anthropic") as (server, config):
        models = {"there/m": ModelConfig(max_output=most)}
        async with AsyncClient(msgspec.structs.replace(config, models=models)) as client:
            await client.complete("there/m", "Look", **options)
    assert server.heard[-1].json["max_tokens"] == sent
