"""`POST /v1/messages` in front of an Ollama that does as it is told, over real sockets."""

import asyncio
import io
import json

import aiohttp
import pytest
from tests.peers import bridged, gateway, model_server, recorded, replay
from tests.raw_http import connect
from tests.streams import chunk
from tests.waiting import until

from toolbridge.config import Config, ProviderConfig

CLAUDE_CODE = {"user-agent": "claude-cli/2.1.325 (external, sdk-cli)", "x-app": "cli"}


def line(content: str = "", *, done: bool = False, **message) -> dict:
    said = {"model": "tiny", "message": {"role": "assistant", "content": content, **message}}
    return said | ({"done": True, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 3}
                   if done else {"done": False})  # fmt: skip


def call(name: str = "f", **arguments) -> dict:
    return {"function": {"name": name, "arguments": arguments}}


def body(text: str = "hi", **more) -> dict:
    return {
        "model": "claude-sonnet-5-5", "max_tokens": 64, "stream": True,
        "messages": [{"role": "user", "content": text}], **more,
    }  # fmt: skip


TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}


async def post(url: str, request: dict, path: str = "/v1/messages", **headers: str):
    """Return status, headers, and the events of a stream or the one object of a whole reply."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            url + path, data=io.BytesIO(json.dumps(request).encode()), headers=headers
        ) as answer,
    ):
        try:
            text = (await answer.read()).decode()
            clean = True
        except aiohttp.ClientPayloadError as error:
            text = str(error)
            clean = False
        answer.clean = clean
        if not answer.headers["content-type"].startswith("text/event-stream"):
            return answer, json.loads(text)
        return answer, text


async def events(url: str, request: dict, **headers: str) -> tuple[list[dict], bool]:
    """Return the events of a stream, and whether it ended cleanly."""
    found: list[dict] = []
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + "/v1/messages", json=request, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        text = b""
        try:
            async for piece in answer.content.iter_any():
                text += piece
            clean = True
        except aiohttp.ClientPayloadError:
            clean = False
    for frame in text.decode().split("\n\n"):
        if frame:
            kind, data = frame.split("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert kind == f"event: {found[-1]['type']}"
    return found, clean


def kinds(found: list[dict]) -> list[str]:
    return [event["type"] for event in found if event["type"] != "ping"]


@pytest.mark.req("CB-13", "CB-23", "PX-46", "PX-47", "CL-03")
async def test_a_stream_has_the_order_that_clients_rely_on():
    async with bridged(replay(line("", thinking="hm"), line("hi"), line(done=True))) as (url, *_):
        answer, text = await post(url, body(thinking={"type": "adaptive"}))
        found, clean = await events(url, body(thinking={"type": "adaptive"}))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert clean
    assert kinds(found) == [
        "message_start",
        "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip
    assert found[1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert found[2] == {"type": "ping"}
    assert found[0]["message"]["usage"]["input_tokens"] > 0
    assert found[-2]["usage"] == found[-2]["usage"] | {"input_tokens": 7, "output_tokens": 3}
    assert text


@pytest.mark.req("CB-23")
async def test_a_stream_has_the_headers_of_a_stream():
    asked = json.dumps(body()).encode()
    async with bridged(replay(line("hi", done=True))) as (url, *_):
        reader, writer = await connect(url)
        writer.write(
            b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n"
            % len(asked)
        )
        writer.write(asked)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        writer.close()
    lines = head.split("\r\n")
    assert lines[0].startswith("http/1.1 200")
    assert any(line.startswith("content-type: text/event-stream") for line in lines)
    assert "cache-control: no-cache" in lines
    assert "connection: keep-alive" in lines


async def test_a_turn_of_calls_ends_with_tool_use_when_done_comes_by_itself():
    chat = replay(line("", tool_calls=[call(a=1)]), line(done=True))
    async with bridged(chat) as (url, *_):
        found, _ = await events(url, body(tools=[TOOL]))
    assert found[-2]["delta"]["stop_reason"] == "tool_use"


async def test_an_empty_first_chunk_loses_no_thinking():
    chat = replay(line(), line("", thinking="deep"), line("said"), line(done=True))
    async with bridged(chat) as (url, *_):
        found, _ = await events(url, body(thinking={"type": "adaptive"}))
    deltas = [e["delta"] for e in found if e["type"] == "content_block_delta"]
    assert deltas[0] == {"type": "thinking_delta", "thinking": "deep"}


async def test_text_after_a_call_is_kept():
    chat = replay(line("", tool_calls=[call(a=1)]), line("after"), line(done=True))
    async with bridged(chat) as (url, *_):
        _, reply = await post(url, body(tools=[TOOL], stream=False))
    assert [block["type"] for block in reply["content"]] == ["tool_use", "text"]
    assert reply["stop_reason"] == "tool_use"


@pytest.mark.req("CB-02", "CB-03", "PX-36", "CB-35")
async def test_text_beside_a_result_and_images_reach_the_model():
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
    }
    messages = [
        {"role": "user", "content": [image, {"type": "text", "text": "what is this?"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "42"}, image]},
            {"type": "text", "text": "beside"},
        ]},
    ]  # fmt: skip
    async with bridged(replay(line("ok", done=True))) as (url, server, _):
        await events(url, body(tools=[TOOL], messages=messages))
    sent = server.chats()[0].json["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "user"]
    assert sent[0]["images"] == ["iVBORw0KGgo="]
    assert sent[2]["content"] == "42"
    assert sent[2]["images"] == ["iVBORw0KGgo="]
    assert sent[2]["tool_name"] == "f"
    assert sent[3]["content"] == "beside"


async def test_disabled_does_not_think():
    async with bridged(replay(line("x", done=True))) as (url, server, _):
        await events(url, body(thinking={"type": "disabled"}))
    assert server.chats()[0].json["think"] is False


@pytest.mark.req("CB-22", "CL-09")
async def test_a_dead_ollama_is_a_502_before_any_byte():
    async with bridged(replay()) as (_, server, _):
        port = server.url
    async with gateway_to(port) as url:
        answer, error = await post(url, body())
    assert answer.status == 502
    assert error["error"]["type"] == "api_error"
    assert "refused the connection" in error["error"]["message"]


def gateway_to(dead: str):
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def serve():
        config = Config(
            log="off", map={"default": "ollama/tiny"},
            providers={"ollama": ProviderConfig(api="ollama", url=dead, retries=0)},
        )  # fmt: skip
        async with gateway(config) as (url, _):
            yield url

    return serve()


@pytest.mark.req("CL-05")
async def test_a_stream_without_done_ends_in_an_error_event_and_without_a_clean_end():
    async with bridged(replay(line("half"))) as (url, *_):
        found, clean = await events(url, body())
    assert kinds(found)[-1] == "error"
    assert "message_stop" not in kinds(found)
    assert not clean


def half_call(*ends: str):
    """Return a Chat Completions server whose call has half its arguments before each of `ends`."""

    async def chat(_, peer):
        start = {"index": 0, "id": "c1", "type": "function"}
        await peer.head(kind="text/event-stream")
        await peer.send(chunk({"content": "Well. "}))
        for function in (
            {"name": "f", "arguments": ""},
            {"arguments": '{"a": 1, "b": "rm -rf /tm'},
        ):
            await peer.send(chunk({"tool_calls": [start | {"function": function}]}))
        for end in ends:
            await peer.send(end)
        await asyncio.sleep(0.05)
        peer.cut() if not ends else await peer.end()

    return chat


@pytest.mark.req("CL-06")
@pytest.mark.parametrize("tools", [[TOOL], []])
async def test_a_call_with_half_its_arguments_is_never_closed(tools):
    async with model_server(half_call()) as server:
        place = ProviderConfig(api="openai_chat", url=server.url, retries=0)
        config = Config(log="off", map={"default": "up/m"}, providers={"up": place})
        async with gateway(config) as (url, _):
            found, clean = await events(url, body(tools=tools))
    starts = [e for e in found if e["type"] == "content_block_start"]
    calls = {e["index"] for e in starts if e["content_block"]["type"] == "tool_use"}
    stops = {e["index"] for e in found if e["type"] == "content_block_stop"}
    assert not calls & stops
    assert (kinds(found)[-1], clean) == ("error", False)


@pytest.mark.req("CL-06")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_that_is_closed_has_arguments_that_are_json(stream):
    """The upstream says that its call is whole, but half of the arguments are missing."""
    end = chunk({}, "tool_calls") + "data: [DONE]\n\n"
    async with model_server(half_call(end)) as server:
        place = ProviderConfig(api="openai_chat", url=server.url, retries=0)
        config = Config(log="off", map={"default": "up/m"}, providers={"up": place})
        async with gateway(config) as (url, _):
            if not stream:
                _, reply = await post(url, body(tools=[TOOL], stream=False))
                (call_,) = [b for b in reply["content"] if b["type"] == "tool_use"]
                assert isinstance(call_["input"], dict)
                return
            found, _ = await events(url, body(tools=[TOOL]))
    deltas = [
        e["delta"].get("partial_json", "") for e in found if e["type"] == "content_block_delta"
    ]
    assert isinstance(json.loads("".join(deltas)), dict)
    assert kinds(found)[-1] == "message_stop"


@pytest.mark.req("CL-05")
async def test_an_upstream_that_dies_in_mid_answer_is_never_a_success():
    async def chat(_, peer):
        await peer.head()
        await peer.send(json.dumps(line("half")) + "\n")
        await asyncio.sleep(0.05)
        peer.cut()

    async with bridged(chat) as (url, *_):
        found, clean = await events(url, body())
        answer, error = await post(url, body(stream=False))
    assert (kinds(found)[-1], clean) == ("error", False)
    assert (answer.status, error["type"]) == (502, "error")


async def test_a_provider_may_be_set_to_abort_without_an_event():
    async with bridged(replay(line("half")), place={"midstream_failure": "abort"}) as (url, *_):
        found, clean = await events(url, body())
    assert "error" not in kinds(found)
    assert not clean


@pytest.mark.req("CL-04", "CB-27")
async def test_a_client_that_leaves_is_noticed_upstream_at_once():
    gone = asyncio.Event()

    async def chat(_, peer):
        await peer.head()
        await peer.send(json.dumps(line("one")) + "\n")
        await peer.gone()
        gone.set()

    async with bridged(chat) as (url, _, app):
        async with aiohttp.ClientSession() as session:
            answer = await session.post(url + "/v1/messages", json=body())
            await answer.content.readany()
            answer.close()
            await asyncio.wait_for(gone.wait(), 20)
        await until(lambda: not app.in_flight)


@pytest.mark.req("CL-04")
async def test_a_client_that_leaves_before_the_first_word_is_noticed_too():
    asked, gone = asyncio.Event(), asyncio.Event()

    async def chat(_, peer):
        asked.set()
        await peer.gone()
        gone.set()

    async with bridged(chat) as (url, _, app):
        async with aiohttp.ClientSession() as session:
            asking = asyncio.create_task(session.post(url + "/v1/messages", json=body()))
            await asyncio.wait_for(asked.wait(), 20)
            asking.cancel()
            await asyncio.wait_for(gone.wait(), 20)
        await until(lambda: not app.in_flight)


@pytest.mark.req("CL-04")
async def test_silence_is_filled_with_pings_and_headers_do_not_wait_for_ever():
    late = asyncio.Event()

    async def chat(_, peer):
        await late.wait()
        await peer.head()
        await peer.send(json.dumps(line("late", done=True)) + "\n")
        await peer.end()

    bridge = bridged(chat, first_byte=0.1, keep_alive=0.1)
    async with bridge as (url, *_), aiohttp.ClientSession() as session:
        async with asyncio.timeout(20):
            answer = await session.post(url + "/v1/messages", json=body())
            before = b""
            while before.count(b"event: ping") < 2:
                before += await answer.content.readany()
            late.set()
            after = await answer.read()
        answer.close()
    assert b"event: message_start" not in before
    assert b"late" in after


async def test_a_failure_after_the_headers_is_an_error_event():
    async def chat(_, peer):
        await asyncio.sleep(0.2)
        await peer.head(404, "application/json")
        await peer.send('{"error":"model not found"}')
        await peer.end()

    async with bridged(chat, first_byte=0.05) as (url, *_):
        found, clean = await events(url, body())
    assert kinds(found) == ["error"]
    assert not clean


async def test_a_slow_reader_slows_the_upstream():
    sent = 0

    async def chat(_, peer):
        nonlocal sent
        await peer.head()
        for _ in range(4000):
            await peer.send(json.dumps(line("x" * 10_000)) + "\n")
            sent += 10_000
        await peer.end()

    async with bridged(chat) as (url, *_), aiohttp.ClientSession(read_bufsize=1024) as session:
        answer = await session.post(url + "/v1/messages", json=body())
        await asyncio.sleep(1)
        stalled = sent
        assert stalled < 20_000_000, "the whole flood was pulled for a client that does not read"
        answer.close()


@pytest.mark.req("PX-19", "PX-52", "PX-X1")
async def test_thinking_on_a_model_that_cannot_is_refused_to_an_api_caller():
    show = {"capabilities": ["completion", "tools"]}
    async with bridged(replay(line("x", done=True)), show=show) as (url, server, _):
        thinking = {"type": "enabled", "budget_tokens": 1024}
        answer, error = await post(url, body(thinking=thinking))
        assert (answer.status, error["error"]["type"]) == (400, "thinking_not_supported")
        assert not server.chats()
        answer, _ = await post(url, body(thinking=thinking), **CLAUDE_CODE)
        assert answer.status == 200
        assert "think" in answer.headers["x-toolbridge-warning"]
        assert "think" not in server.chats()[0].json
        answer, _ = await post(url, body(thinking={"type": "adaptive"}))
        assert answer.status == 200


@pytest.mark.req("CL-11")
async def test_the_same_conversation_is_the_same_prefix_for_the_model():
    """Claude Code varies what no model needs: its billing line, cache marks, strings or blocks."""
    mark = {"cache_control": {"type": "ephemeral"}}
    said = {"type": "text", "text": "Be brief."}
    requests = [
        body(system="Be brief.", tools=[TOOL]),
        body(system=[{**said, **mark}], tools=[{**TOOL, **mark}],
             messages=[{"role": "user", "content": [{"type": "text", "text": "hi", **mark}]}]),
        body(system=[{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.325.abc;"}, said],
             tools=[TOOL], messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}]),
    ]  # fmt: skip
    async with bridged(replay(line("ok", done=True))) as (url, server, _):
        for request in requests:
            await events(url, request)
    sent = [chat.body for chat in server.chats()]
    assert sent[0] == sent[1] == sent[2]
    assert b"cache_control" not in sent[1]


@pytest.mark.req("PX-49")
async def test_the_requested_name_is_echoed_and_the_mapped_one_is_asked():
    chat = recorded("ollama/jinja/chat_stream.txt")
    models = ("tiny:latest", "big:latest")
    async with bridged(chat, models=models, map={"opus": "ollama/big:latest"}) as (url, server, _):
        _, reply = await post(url, body(stream=False) | {"model": "claude-opus-5-5[1m]"})
        await post(url, body(stream=False) | {"model": "claude-haiku-4-5"})
    assert reply["model"] == "claude-opus-5-5[1m]"
    assert [chat.json["model"] for chat in server.chats()] == ["big:latest", "tiny:latest"]


@pytest.mark.req("CL-07")
async def test_an_empty_answer_is_asked_for_once_more():
    answers = iter([replay(line(done=True)), replay(line("now", done=True))])

    async def chat(heard, peer):
        await next(answers)(heard, peer)

    async with bridged(chat) as (url, server, _):
        _, reply = await post(url, body(stream=False))
    assert reply["content"][0]["text"] == "now"
    assert len(server.chats()) == 2


@pytest.mark.req("CL-09", "CL-10")
async def test_overflow_is_said_in_the_words_on_which_claude_code_compacts():
    async with bridged(recorded("ollama/jinja/chat_toolong.txt")) as (url, *_):
        answer, error = await post(url, body())
        assert answer.status == 400
        assert error["error"]["message"].startswith(
            "prompt is too long: 60003 tokens > 8192 maximum"
        )
        answer, error = await post(url, body("word " * 300_000))
        assert answer.status == 400
        assert "tokens > 65536 maximum" in error["error"]["message"]


@pytest.mark.req("PX-X2")
async def test_sequential_tools_are_a_setting_of_a_model():
    from toolbridge.config import ModelConfig

    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "f", "input": {}},
            {"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "b", "content": "B"},
            {"type": "tool_result", "tool_use_id": "a", "content": "A"}]},
    ]  # fmt: skip
    models = {"ollama/tiny:latest": ModelConfig(sequential_tools=True)}
    chat = replay(line("x", done=True))
    config = {"tools": [TOOL], "messages": messages}
    async with sequential(chat, models) as (url, server):
        await events(url, body(**config))
    roles = [m["role"] for m in server.chats()[0].json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]


def sequential(chat, models):
    from contextlib import asynccontextmanager

    from tests.peers import ollama

    @asynccontextmanager
    async def serve():
        async with model_server(ollama(chat)) as server:
            config = Config(
                log="off", map={"default": "ollama/tiny:latest"}, models=models,
                providers={"ollama": ProviderConfig(api="ollama", url=server.url)},
            )  # fmt: skip
            async with gateway(config) as (url, _):
                yield url, server

    return serve()
