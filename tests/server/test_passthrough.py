"""Passthrough: the provider's own bytes, whole events only, watched for their end."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.peers import gateway, model_server
from tests.tables import every_row

from toolbridge import providers
from toolbridge.config import Config, ProviderConfig
from toolbridge.core.codec import Target
from toolbridge.routing.passthrough import passthrough_body
from toolbridge.routing.providers import find_providers, passes_through
from toolbridge.routing.route import Route

STREAM = (
    b'event: message_start\r\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
    b'"role":"assistant","model":"claude-x","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}'
    b'\r\n\r\nevent: brand_new\r\ndata: {"type":"brand_new", "odd":  1}\r\n\r\n'
    b'event: content_block_delta\r\ndata: {"type":"content_block_delta","index":0,"delta":'
    b'{"type":"text_delta","text":"hi"}}\r\n\r\n'
    b'event: message_delta\r\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
    b'"usage":{"output_tokens":2}}\r\n\r\nevent: message_stop\r\ndata: {"type":"message_stop"}\r\n\r\n'
)  # fmt: skip
START = STREAM[: STREAM.index(b"event: brand_new")]
WORDS = STREAM[: STREAM.index(b"event: message_delta")]
KEY = "real-key-of-the-gateway"


@asynccontextmanager
async def passing(answer, api: str = "anthropic", retries: int = 0, **settings):
    async with model_server(answer) as server:
        place = ProviderConfig(
            api=api, url=server.url, key=KEY, passthrough=True, retries=retries, **settings
        )
        config = Config(log="json", map={"default": "there/m"}, providers={"there": place})
        async with gateway(config) as (url, app):
            yield url, server, app


def answer(body: bytes, status: int = 200, kind: str = "text/event-stream", **headers: str):
    async def serve(_, line):
        await line.head(status, kind, **headers)
        await line.send(body[:50])
        await asyncio.sleep(0.01)
        await line.send(body[50:])
        await line.end()

    return serve


def breaking_off(body: bytes):
    async def serve(_, line):
        await line.head(200, "text/event-stream")
        await line.send(body)
        await asyncio.sleep(0.05)
        line.cut()

    return serve


async def post(url: str, body: bytes, path: str = "/v1/messages?beta=true", **headers: str):
    """Return the reply, all bytes of its body, and whether the body had a clean end."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, data=body, headers=headers) as reply,
    ):
        found = b""
        try:
            while piece := await reply.content.readany():
                found += piece
        except aiohttp.ClientPayloadError:
            return reply, found, False
        return reply, found, True


ODD = (
    b'{"model": "claude-sonnet-5-5", "max_tokens": 5, "stream":true,  "brand_new": {"a":  1.0},'
    b' "messages": [{"role":"user","content":"caf\\u00e9 \\/"}]}'
)
WHOLE = ODD.replace(b'"stream":true', b'"stream":false')


async def test_every_byte_of_a_stream_passes_and_is_counted(capsys):
    async with passing(answer(STREAM)) as (url, server, _):
        reply, body, clean = await post(
            url, ODD, **{"anthropic-beta": "new-thing", "x-api-key": "client"}
        )
    assert (body, clean) == (STREAM, True)
    assert reply.headers["content-type"] == "text/event-stream"
    heard = server.heard[0]
    assert heard.headers["x-api-key"] == KEY
    assert heard.headers["anthropic-beta"] == "new-thing"
    assert b'"brand_new":{"a":  1.0}' in heard.body
    assert b"caf\\u00e9 \\/" in heard.body
    assert heard.json["model"] == "m"
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert line["gen_ai.usage.input_tokens"] == 5
    assert line["gen_ai.usage.output_tokens"] == 2
    assert reply.headers["x-toolbridge-model"] == "there/m"


async def test_every_byte_of_a_body_passes():
    body = (
        b'{"id":"msg_1", "type":"message","role":"assistant","model":"x","content":[{"type":"text",'
        b'"text":"caf\\u00e9"}], "stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1},'
        b'"brand_new": 1.0}\n'
    )  # fmt: skip
    async with passing(answer(body, kind="application/json")) as (url, *_):
        reply, found, _ = await post(url, WHOLE)
    assert (reply.status, found) == (200, body)


@pytest.mark.parametrize("body", [ODD, WHOLE], ids=["stream", "whole"])
async def test_a_rejection_of_the_provider_passes_unchanged(body, capsys):
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}, "x":1}'
    serve = answer(error, 529, "application/json", retry_after="7")
    async with passing(serve) as (url, *_):
        reply, found, _ = await post(url, body)
    assert (reply.status, found) == (529, error)
    assert reply.headers["retry-after"] == "7"
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert line["error.message"] == "there: Overloaded"


async def test_a_rejection_that_passes_by_itself_is_asked_again():
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    answers = iter([answer(error, 529, "application/json"), answer(STREAM)])

    async def serve(heard, line):
        await next(answers)(heard, line)

    async with passing(serve, retries=1) as (url, server, _):
        reply, found, _ = await post(url, ODD)
    assert (reply.status, found) == (200, STREAM)
    assert len(server.heard) == 2


@pytest.mark.parametrize("cut", range(len(WORDS) + 1, len(WORDS) + 60, 7))
@pytest.mark.parametrize("hangs_up", [True, False], ids=["breaks", "ends"])
async def test_a_cut_ends_in_an_error_event_behind_the_last_whole_event(cut, hangs_up):
    serve = breaking_off(STREAM[:cut]) if hangs_up else answer(STREAM[:cut])
    async with passing(serve) as (url, *_):
        _, body, clean = await post(url, ODD)
    assert body.startswith(WORDS)
    name, data = body[len(WORDS) :].rstrip().split(b"\n")
    assert name == b"event: error"
    assert json.loads(data.removeprefix(b"data: "))["type"] == "error"
    assert not clean


@pytest.mark.parametrize("size", [1, 5, 7])
async def test_every_byte_passes_however_small_the_pieces(size):
    async def serve(_, line):
        await line.head(200, "text/event-stream")
        for at in range(0, len(STREAM), size):
            await line.send(STREAM[at : at + size])
        await line.end()

    async with passing(serve) as (url, *_):
        _, body, clean = await post(url, ODD)
    assert (body, clean) == (STREAM, True)


async def test_an_event_that_is_no_json_is_replaced_by_an_error():
    broken = WORDS + b'event: content_block_delta\r\ndata: {"type":"half\r\n\r\n'
    async with passing(answer(broken)) as (url, *_):
        _, body, clean = await post(url, ODD)
    assert body.startswith(WORDS + b"event: error\n")
    assert b'data: {"type":"half' not in body
    assert not clean


async def test_the_providers_own_error_event_passes_once():
    error = b'event: error\r\ndata: {"type":"error","error":{"type":"api_error","message":"oh"}}\r\n\r\n'
    async with passing(answer(WORDS + error)) as (url, *_):
        _, body, clean = await post(url, ODD)
    assert (body, clean) == (WORDS + error, False)


async def test_an_end_that_admits_a_failure_is_an_error():
    """Z.ai and OpenRouter end a broken answer with a finish reason and `[DONE]`."""
    chunk = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%b,"finish_reason":%b}]}\n\n'  # fmt: skip
    words = chunk % (b'{"content":"Half"}', b"null")
    broken = words + chunk % (b"{}", b'"network_error"') + b"data: [DONE]\n\n"
    asked = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
    async with passing(answer(broken), "openai_chat") as (url, *_):
        _, body, clean = await post(url, asked, "/v1/chat/completions")
    assert body.startswith(words)
    assert b"[DONE]" not in body
    assert "error" in json.loads(body.rstrip().rpartition(b"data: ")[2])
    assert not clean


async def test_a_last_event_may_lack_its_empty_line():
    async with passing(answer(STREAM.rstrip())) as (url, *_):
        _, body, clean = await post(url, ODD)
    assert body.startswith(STREAM.rstrip())
    assert b"event: error" not in body
    assert clean


async def test_an_event_without_content_is_not_held_back():
    """A ping of the provider is forwarded while the model is silent."""
    go_on = asyncio.Event()

    async def serve(_, line):
        await line.head(200, "text/event-stream")
        await line.send(WORDS + b'event: ping\ndata: {"type":"ping"}\n\n')
        await go_on.wait()
        await line.send(STREAM[len(WORDS) :])
        await line.end()

    async with (
        passing(serve) as (url, *_),
        aiohttp.ClientSession() as session,
        session.post(url + "/v1/messages", data=ODD) as reply,
    ):
        await asyncio.wait_for(reply.content.readuntil(b'{"type":"ping"}\n\n'), 20)
        go_on.set()
        assert (await reply.content.read()).endswith(STREAM[len(WORDS) :])


async def test_a_whole_answer_to_a_request_for_a_stream_is_streamed():
    body = (
        b'{"id":"msg_1","type":"message","role":"assistant","model":"x","content":[{"type":"text",'
        b'"text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}'
    )
    async with passing(answer(body, kind="application/json")) as (url, *_):
        reply, found, clean = await post(url, ODD)
    assert reply.headers["content-type"] == "text/event-stream"
    assert b"event: content_block_delta" in found
    assert found.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert clean


# ── numbered events ──────────────────────────────────────────────────────────


def numbered(*events: dict) -> bytes:
    return b"".join(
        f"event: {e['type']}\ndata: {json.dumps({**e, 'sequence_number': n})}\n\n".encode()
        for n, e in enumerate(events)
    )


async def test_an_error_event_continues_the_providers_numbers():
    response = {"id": "resp_up", "object": "response", "created_at": 1, "model": "m", "status":
                "in_progress", "output": []}  # fmt: skip
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress",
            "content": []}  # fmt: skip
    sent = numbered(
        {"type": "response.created", "response": response},
        {"type": "response.in_progress", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
         "content_index": 0, "delta": 'he said "sequence_number": 99'},
    )  # fmt: skip
    asked = b'{"model":"m","input":"hi","stream":true}'
    async with passing(answer(sent), "openai_responses") as (url, *_):
        _, body, clean = await post(url, asked, "/v1/responses")
    assert body.startswith(sent)
    event = json.loads(body[len(sent) :].split(b"data: ")[1])
    assert (event["type"], event["sequence_number"]) == ("response.failed", 4)
    assert event["response"]["id"] == "resp_up"
    assert not clean


async def test_an_answer_of_the_provider_is_gone_on_from_there():
    """`previous_response_id` names an answer that the provider keeps, so it is the provider's."""
    whole = b'{"id":"resp_2","object":"response","status":"completed","model":"m","output":[]}'
    asked = b'{"model":"m","input":"and?","previous_response_id":"resp_1"}'
    serve = answer(whole, kind="application/json")
    async with passing(serve, "openai_responses") as (url, server, _):
        reply, found, _ = await post(url, asked, "/v1/responses")
    assert (reply.status, found) == (200, whole)
    assert server.heard[0].json["previous_response_id"] == "resp_1"


async def test_a_gemini_array_is_written_as_one():
    chunk = b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}]}\n\n'  # fmt: skip
    asked = b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'
    async with passing(answer(chunk), "gemini") as (url, server, _):
        reply, body, _ = await post(url, asked, "/v1beta/models/m:streamGenerateContent")
    assert server.heard[0].path.endswith("?alt=sse")
    assert reply.headers["content-type"] == "application/json"
    texts = [p["text"] for c in json.loads(body) for p in c["candidates"][0]["content"]["parts"]]
    assert "".join(texts) == "hi"


async def test_a_raw_prompt_reaches_an_ollama_as_it_is_by_default():
    """`/api/generate` completes raw prompts between prefix and suffix, which no chat can say."""
    lines = (
        b'{"model":"m","response":"a + b","done":false}\n{"model":"m","response":"","done":true}\n'
    )
    asked = {"model": "m", "prompt": "def add(a, b): return ", "suffix": "\n", "raw": True,
             "options": {"num_predict": 9, "new": 1}}  # fmt: skip

    async def serve(heard, line):
        await line.head(404 if heard.path == "/api/show" else 200)
        await line.send(lines)
        await line.end()

    async with model_server(serve) as server:
        place = ProviderConfig(api="ollama", url=server.url)
        config = Config(log="off", map={"default": "there/m"}, providers={"there": place})
        async with gateway(config) as (url, _):
            reply, body, _ = await post(url, json.dumps(asked).encode(), "/api/generate")
    assert (reply.status, body) == (200, lines)
    heard = next(h for h in server.heard if h.path == "/api/generate")
    assert heard.json == asked


# ── the request ──────────────────────────────────────────────────────────────


def route(url: str = "https://api.example.org") -> Route:
    return Route("there", ProviderConfig(api="anthropic", url=url), "", Target(model="y"))


def test_only_the_model_changes():
    body = b'{"a":[1, 2,\n 3],"model":"x","z":"\\u00e9"}'
    assert passthrough_body(body, route()) == b'{"a":[1, 2,\n 3],"model":"y","z":"\\u00e9"}'


LINE = b'{"type":"text","text":"x-anthropic-billing-header: cc_version=2;"}'


def test_the_billing_line_goes_to_anthropic_alone():
    body = b'{"model":"y","system":[' + LINE + b',{"type":"text", "text":"Be \\u00e9."}]}'
    lean = b'{"model":"y","system":[{"type":"text", "text":"Be \\u00e9."}]}'
    assert passthrough_body(body, route()) == lean
    assert passthrough_body(body, route("https://api.anthropic.com")) == body


# ── who is passed through ────────────────────────────────────────────────────


def test_first_party_providers_pass_through_and_no_others():
    passed = {name for name in providers.names() if passes_through(providers.load(name))}
    assert passed == {"anthropic", "openai", "google"}


@every_row(
    ("name", "settings", "passes"),
    [
        ("anthropic", {}, True),
        ("anthropic", {"passthrough": False}, False),
        ("anthropic", {"url": "http://127.0.0.1:8080"}, False),
        ("openai", {"url": "http://127.0.0.1:1234/v1"}, False),
        ("openai", {"url": "http://127.0.0.1:1234/v1", "passthrough": True}, True),
        ("mine", {"api": "anthropic", "url": "http://127.0.0.1:8080"}, False),
        ("mine", {"api": "anthropic", "url": "http://127.0.0.1:8080", "passthrough": True}, True),
        ("mine", {"api": "openai_responses", "url": "https://api.openai.com/v1"}, True),
    ],
)
def test_a_users_setting_decides_and_else_whose_server_it_is(name, settings, passes):
    config = Config(providers={name: ProviderConfig(**settings)})
    assert passes_through(find_providers(config, {})[name]) is passes


GENERATED = b'{"model":"m","response":"hi","done":true,"done_reason":"stop","eval_count":1}\n'
LATE = b'{"model":"m","response":"late","done":false}\n'
ENDS = {
    "generate": ("ollama", "/api/generate", GENERATED, LATE, True),
    "generate, no stream": ("ollama", "/api/generate", GENERATED, LATE, False),
    "generate, not JSON": ("ollama", "/api/generate", GENERATED, b"late\n", True),
    "messages": ("anthropic", "/v1/messages", STREAM, b"event: ping\ndata: late\n\n", True),
}


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
async def test_bytes_after_the_end_of_an_answer_are_not_forwarded(case, apart):
    api, path, whole, late, stream = ENDS[case]

    async def serve(_, line):
        await line.head(200, "application/x-ndjson" if api == "ollama" else "text/event-stream")
        for piece in (whole, late) if apart else (whole + late,):
            await line.send(piece)
            await asyncio.sleep(0.01)
        await line.end()

    asked = {"model": "m", "prompt": "x", "stream": stream}
    body = json.dumps(asked).encode() if api == "ollama" else ODD
    async with passing(serve, api) as (url, *_):
        reply, found, clean = await post(url, body, path)
    assert (reply.status, clean) == (200, True)
    assert b"hi" in found
    assert b"late" not in found
    if stream:
        assert found == whole
