"""Failover over real sockets: the next provider answers, and the client sees one whole answer."""

import asyncio
import json
from contextlib import suppress

import aiohttp
import pytest
from tests.peers import Heard, Line, gateway, model_server, whole

from toolbridge.config import Config, ProviderConfig

DEAD = "http://127.0.0.1:1"
PROMPT = [{"role": "user", "content": "x"}]
ASKS = {
    "anthropic": ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": PROMPT}),
    "openai_chat": ("/v1/chat/completions", {"model": "m", "messages": PROMPT}),
    "openai_responses": ("/v1/responses", {"model": "m", "input": "x"}),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
    ),
    "ollama": ("/api/chat", {"model": "m", "messages": PROMPT}),
}


def sse(*events: dict) -> list[str]:
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def claude(text: str) -> list[str]:
    """Return the pieces of an Anthropic stream that says `text`."""
    usage = {"input_tokens": 3, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "x"}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    return sse(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": c}}
            for c in text
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    )


def chat(text: str) -> list[str]:
    """Return the pieces of a Chat Completions stream that says `text`."""
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "y"}
    choices = [{"index": 0, "delta": {"role": "assistant", "content": c}} for c in text]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    pieces = [f"data: {json.dumps(chunk | {'choices': [choice]})}\n\n" for choice in choices]
    return [*pieces, "data: [DONE]\n\n"]


STREAMS = {"anthropic": claude, "openai_chat": chat}


def says(api: str, text: str):
    """Return a server that answers in `api`, as a stream or whole, as it is asked."""

    async def answer(heard: Heard, line: Line) -> None:
        if heard.json.get("stream"):
            await line.head(kind="text/event-stream")
            for piece in STREAMS[api](text):
                await line.send(piece)
            await line.end()
        elif api == "anthropic":
            usage = {"input_tokens": 3, "output_tokens": 1}
            body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "x"}
            body |= {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
            await whole(line, body | {"stop_sequence": None, "usage": usage})
        else:
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            await whole(line, {"id": "c", "object": "chat.completion", "choices": [choice]})

    return answer


def fails(status: int, body: dict | None = None, **headers: str):
    async def answer(_: Heard, line: Line) -> None:
        await line.head(status, "application/json", **headers)
        await line.send(json.dumps(body or {"error": {"message": "no"}}))
        await line.end()

    return answer


async def reset(_: Heard, line: Line) -> None:
    line.cut()


async def stalls(_: Heard, line: Line) -> None:
    await line.head(kind="text/event-stream")
    await line.gone()


def two(first: str, second: str, api: str = "anthropic", *, passthrough: bool = False, **settings):
    """Return a configuration in which every name means two providers."""
    keep = settings.pop("gateway", {})
    place = {"api": api, "passthrough": passthrough, "retries": 0} | settings
    return Config(
        log="off",
        map={"default": ("a/x", "b/y")},
        providers={
            "a": ProviderConfig(url=first, **place),
            "b": ProviderConfig(url=second, **place | {"retries": 0}),
        },
        **keep,
    )


def text_of(said: str) -> str:
    """Return the text of an answer in any API, whole or streamed."""
    found = []
    for given in said.split("\n"):
        line = given.removeprefix("data: ").strip()
        if line.startswith("{"):
            found.append(_text(json.loads(line)))
    return "".join(found)


def _text(body: dict) -> str:
    match body:
        case {"type": "content_block_delta", "delta": {"text": text}}:
            return text
        case {"type": "response.output_text.delta", "delta": text}:
            return text
        case {"type": "message", "content": [{"text": text}]}:
            return text
        case {"choices": [{"delta": {"content": text}}]} if text:
            return text
        case {"choices": [{"message": {"content": text}}]}:
            return text
        case {"output": [{"content": [{"text": text}]}], "object": "response"}:
            return text
        case {"candidates": [{"content": {"parts": [{"text": text}]}}]}:
            return text
        case {"message": {"content": str(text)}}:
            return text
    return ""


def asked(api: str, *, stream: bool) -> tuple[str, dict]:
    path, body = ASKS[api]
    if api == "gemini":
        return (path.replace(":g", ":streamG") + "?alt=sse" if stream else path), body
    return path, body | {"stream": stream}


async def ask(here: str, api: str = "anthropic", *, stream: bool = True):
    path, body = asked(api, stream=stream)
    async with (
        aiohttp.ClientSession() as session,
        session.post(here + path, json=body) as reply,
    ):
        said = b""
        with suppress(aiohttp.ClientPayloadError):  # a failed stream has no clean end
            async for piece in reply.content.iter_any():
                said += piece
        return reply, said.decode()


FAULTS = {
    "reset": (reset, "connection (unreachable)"),
    "429": (fails(429, retry_after="60"), "rate_limit (429)"),
    "529": (fails(529), "overload (529)"),
    "500": (fails(500), "overload (500)"),
    "401": (fails(401), "auth (401)"),
    "404": (fails(404), "no_model (404)"),
    "quota": (
        fails(429, {"error": {"type": "insufficient_quota", "message": "insufficient_quota"}}),
        "quota (429)",
    ),
    "credit": (
        fails(400, {"type": "error", "error": {"type": "invalid_request_error",
                    "message": "Your credit balance is too low to access the Anthropic API."}}),
        "quota (400)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("passthrough", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
async def test_the_next_provider_answers_and_the_reason_is_reported(fault, passthrough, stream):
    broken, why = FAULTS[fault]
    async with (
        model_server(broken) as first,
        model_server(says("anthropic", "hello")) as second,
        gateway(two(first.url, second.url, passthrough=passthrough)) as (here, app),
    ):
        lines = []
        app.record = lambda entry, status: lines.append(entry.line(status))
        reply, said = await ask(here, stream=stream)
    assert reply.status == 200
    assert text_of(said) == "hello"
    assert reply.headers["x-toolbridge-model"] == "b/y"
    assert reply.headers["x-toolbridge-tried"] == f"a/x {why}"
    assert "b/y answered instead of a/x" in reply.headers["x-toolbridge-warning"]
    assert lines[0]["tried"][0].startswith(f"a/x {why}")
    assert lines[0]["gen_ai.provider.name"] == "b"
    assert json.loads(second.heard[-1].body)["model"] == "y"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("upstream", STREAMS)
@pytest.mark.parametrize("api", ASKS)
async def test_clients_of_every_api_get_the_answer_of_the_second(api, upstream, stream):
    async with (
        model_server(says(upstream, "hello")) as second,
        gateway(two(DEAD, second.url, upstream)) as (here, _),
    ):
        reply, said = await ask(here, api, stream=stream)
    assert (reply.status, text_of(said)) == (200, "hello")
    assert reply.headers["x-toolbridge-tried"] == "a/x connection (unreachable)"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("passthrough", [True, False])
async def test_a_bad_request_is_never_sent_to_another_provider(passthrough, stream):
    words = {"type": "error", "error": {"type": "invalid_request_error", "message": "odd roles"}}
    async with (
        model_server(fails(400, words)) as first,
        model_server(says("anthropic", "hello")) as second,
        gateway(two(first.url, second.url, passthrough=passthrough)) as (here, _),
    ):
        reply, said = await ask(here, stream=stream)
    assert reply.status == 400
    assert "odd roles" in said
    assert second.heard == []


async def test_all_failures_are_named_if_no_provider_answers():
    async with (
        model_server(fails(401)) as first,
        model_server(fails(529, retry_after="7")) as second,
        gateway(two(first.url, second.url)) as (here, _),
    ):
        reply, said = await ask(here)
    assert reply.status == 529
    assert reply.headers["retry-after"] == "7"
    text = json.loads(said)["error"]["message"]
    assert "a/x auth (401)" in text
    assert "b/y overload (529)" in text
    assert reply.headers["x-toolbridge-tried"] == "a/x auth (401); b/y overload (529)"


@pytest.mark.parametrize("passthrough", [True, False])
async def test_death_at_every_byte_gives_one_whole_answer_or_an_error_at_the_end(passthrough):
    stream = "".join(claude("hi")).encode()  # the first delta and a later one
    cut = 0

    async def dies(_: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        if cut:
            await line.send(stream[:cut])
            await asyncio.sleep(0)
        line.cut()

    async with (
        model_server(dies) as first,
        model_server(says("anthropic", "WORLD")) as second,
        gateway(two(first.url, second.url, passthrough=passthrough)) as (here, app),
    ):
        outcomes = set()
        for cut in range(len(stream)):  # noqa: B007  `dies` reads it
            app.gateway.router.health.__init__()  # the breaker would pass over the dying server
            _, said = await ask(here)
            text = text_of(said)
            starts = said.count("event: message_start")
            if text == "WORLD":
                assert starts == 1
                assert said.count("event: message_stop") == 1
                outcomes.add("second")
            elif "event: message_stop" in said:
                assert text == "hi"  # it died after its end
                outcomes.add("whole")
            else:
                assert "hi".startswith(text)
                assert "WORLD" not in said
                assert "event: error" in said
                outcomes.add("error")
    assert {"second", "error"} <= outcomes


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [529, 400])
async def test_no_warning_names_a_model_that_did_not_answer(status, stream):
    async with (
        model_server(fails(529)) as first,
        model_server(fails(status)) as second,
        gateway(two(first.url, second.url)) as (here, _),
    ):
        reply, said = await ask(here, stream=stream)
    assert "answered instead" not in reply.headers.get("x-toolbridge-warning", "") + said
    assert reply.headers["x-toolbridge-tried"].startswith("a/x overload (529); b/y ")


async def test_a_stall_before_the_first_content_ends_at_the_first_byte_timeout():
    async with (
        model_server(stalls) as first,
        model_server(says("anthropic", "hello")) as second,
        gateway(two(first.url, second.url, first_byte_timeout=0.2)) as (here, _),
    ):
        reply, said = await ask(here)
    assert text_of(said) == "hello"
    assert reply.headers["x-toolbridge-tried"] == "a/x connection (timed_out)"


WHOLE = {
    "openai_responses": {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "x",
        "output": [
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "hello", "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4},
    },
    "gemini": {
        "candidates": [
            {
                "index": 0,
                "content": {"role": "model", "parts": [{"text": "hello"}]},
                "finishReason": "STOP",
            }
        ]
    },
    "ollama": {
        "model": "x",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": "hello"},
        "done": True,
        "done_reason": "stop",
    },
}
"""Whole answers of the APIs that `says` does not have."""


@pytest.mark.parametrize("client", list(ASKS))
@pytest.mark.parametrize("api", list(ASKS))
async def test_the_first_byte_timeout_does_not_apply_to_a_whole_answer(api, client):
    scripted = says(api, "hello")

    async def slow(heard: Heard, line: Line) -> None:
        if heard.method == "POST" and heard.path != "/api/show":
            await asyncio.sleep(0.2)
        if api not in WHOLE:
            await scripted(heard, line)
            return
        assert not heard.json.get("stream")
        assert "stream" not in heard.path
        await whole(line, WHOLE[api])

    async with model_server(slow) as server:
        one = ProviderConfig(api=api, url=server.url, retries=0, first_byte_timeout=0.05)
        config = Config(log="off", map={"default": "a/x"}, providers={"a": one})
        async with gateway(config) as (here, _):
            reply, said = await ask(here, client, stream=False)
    assert reply.status == 200, said
    assert "hello" in str(said)


@pytest.mark.parametrize("passthrough", [True, False])
async def test_a_stall_in_the_stream_ends_the_answer_with_an_error(passthrough):
    async def stops(_: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        for piece in claude("hello")[:4]:
            await line.send(piece)
        await line.gone()

    async with (
        model_server(stops) as first,
        model_server(says("anthropic", "WORLD")) as second,
        gateway(two(first.url, second.url, passthrough=passthrough, total_timeout=2)) as (
            here,
            _,
        ),
    ):
        _, said = await ask(here)
    assert text_of(said) == "he"
    assert "event: error" in said
    assert "total_timeout" in said
    assert second.heard == []


@pytest.mark.parametrize("api", ASKS)
@pytest.mark.parametrize("passthrough", [True, False])
async def test_a_keep_alive_before_the_failure_still_gives_one_answer(api, passthrough):
    """The stream is open when the first provider fails; the second one continues it."""

    async def late(_: Heard, line: Line) -> None:
        await asyncio.sleep(0.3)
        line.cut()

    upstream = api if api in STREAMS else "openai_chat"
    async with (
        model_server(late) as first,
        model_server(says(upstream, "hello")) as second,
        gateway(
            two(
                first.url, second.url, upstream, passthrough=passthrough,
                gateway={"first_byte": 0.05, "keep_alive": 0.05},
            )
        ) as (here, _),
    ):  # fmt: skip
        reply, said = await ask(here, api)
    assert reply.status == 200
    assert "x-toolbridge-model" not in reply.headers  # it was sent before b/y was asked
    assert text_of(said) == "hello"
    assert said.count("event: message_start") <= 1
    assert said.count("event: response.created") <= 1
    assert "error" not in said.replace('"error":null', "")


async def test_a_client_that_leaves_while_the_second_is_tried_closes_its_connection():
    reached, left = asyncio.Event(), asyncio.Event()

    async def waits(_: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        reached.set()
        await line.gone()
        left.set()

    async with (
        model_server(fails(529)) as first,
        model_server(waits) as second,
        gateway(two(first.url, second.url)) as (here, app),
        aiohttp.ClientSession() as session,
    ):
        path, body = asked("anthropic", stream=True)
        asking = asyncio.create_task(session.post(here + path, json=body))
        await asyncio.wait_for(reached.wait(), 20)
        asking.cancel()
        await asyncio.wait_for(left.wait(), 20)
        for _ in range(500):
            if not app.in_flight:
                break
            await asyncio.sleep(0.01)
        assert not app.in_flight


async def test_an_overflow_goes_only_to_a_larger_window():
    asked_of = []

    def model(name: str):
        async def answer(heard: Heard, line: Line) -> None:
            asked_of.append(name)
            await says("anthropic", name)(heard, line)

        return answer

    words = {"type": "error", "error": {"type": "invalid_request_error",
             "message": "prompt is too long: 300 tokens > 200 maximum"}}  # fmt: skip
    async with (
        model_server(fails(400, words)) as first,
        model_server(model("small")) as small,
        model_server(model("large")) as large,
    ):
        place = {"api": "anthropic", "passthrough": False, "retries": 0}
        config = Config(
            log="off",
            map={"default": ("a/x", "s/x", "l/x")},
            providers={
                "a": ProviderConfig(url=first.url, **place),
                "s": ProviderConfig(url=small.url, window=200, **place),
                "l": ProviderConfig(url=large.url, window=2000, **place),
            },
        )
        async with gateway(config) as (here, _):
            reply, said = await ask(here)
    assert text_of(said) == "large"
    assert asked_of == ["large"]
    assert (
        "s/x passed over: its context window is not larger" in reply.headers["x-toolbridge-tried"]
    )


async def test_a_provider_without_credit_is_passed_over_by_the_next_request():
    async with (
        model_server(FAULTS["quota"][0]) as first,
        model_server(says("anthropic", "hello")) as second,
        gateway(two(first.url, second.url)) as (here, _),
    ):
        await ask(here)
        reply, said = await ask(here)
    assert text_of(said) == "hello"
    assert len(first.heard) == 1
    assert reply.headers["x-toolbridge-tried"].startswith("a/x passed over: quota")


async def test_a_missing_key_leads_to_the_next_address():
    async with model_server(says("anthropic", "hello")) as second:
        config = two("https://api.openai.com", second.url)
        keyless = ProviderConfig(api="anthropic", url="https://a.test", key="$A_KEY")
        config.providers["a"] = keyless
        async with gateway(config) as (here, _):
            reply, said = await ask(here)
    assert text_of(said) == "hello"
    assert reply.headers["x-toolbridge-tried"] == "a/x no_model (unknown_model)"


@pytest.mark.parametrize("passthrough", [False, True])
@pytest.mark.parametrize(("first_byte", "status"), [(0.9, 429), (2.0, 200)])
async def test_a_wait_beyond_the_first_byte_is_left_to_the_client(first_byte, status, passthrough):
    answers = iter([fails(429, retry_after="1"), says("anthropic", "hello")])

    async def answer(heard: Heard, line: Line) -> None:
        await next(answers)(heard, line)

    async with model_server(answer) as server:
        provider = ProviderConfig("anthropic", server.url, passthrough=passthrough)
        config = Config(providers={"a": provider}, map={"m": "a/x"}, first_byte=first_byte)
        async with gateway(config) as (here, _):
            reply, said = await ask(here)
    assert reply.status == status
    if status == 429:
        assert reply.headers["retry-after"] == "1"
    else:
        assert text_of(said) == "hello"
