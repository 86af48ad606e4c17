"""Token counts as floats, strings and anything else: read in the same way from every API."""

import json

import pytest
from tests.peers import Heard, Line, gateway, model_server
from tests.resuming import Asker

from toolbridge.config import Config, ProviderConfig

CHAT = {"role": "assistant", "content": "fine"}
READABLE = [(12, 12), (12.0, 12), ("12", 12)]
UNREADABLE = [12.5, "many", True, [12], {"n": 12}, None]


def bodies(given: object) -> dict[str, tuple[dict, list[str]]]:
    """Return a whole body and a stream for each API, with `given` as both counts."""
    chat = {"prompt_tokens": given, "completion_tokens": given, "prompt_tokens_details": given}
    counts = {"input_tokens": given, "output_tokens": given, "output_tokens_details": given}
    gemini = {
        "candidates": [{"content": {"parts": [{"text": "fine"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": given, "candidatesTokenCount": given},
    }
    item = {"type": "message", "id": "i", "content": [{"type": "output_text", "text": "fine"}]}
    response = {"id": "r", "status": "completed", "output": [item], "usage": counts}
    ended = {"choices": [{"delta": {"content": "fine"}, "finish_reason": "stop"}], "usage": chat}
    line = {"message": CHAT, "done": True, "prompt_eval_count": given, "eval_count": given}
    content = [{"type": "text", "text": "fine"}]
    message = {"id": "m", "type": "message", "content": content, "stop_reason": "end_turn"}
    begun = {"id": "m", "content": [], "usage": {"input_tokens": given, "output_tokens": 1}}
    delta = {"type": "text_delta", "text": "fine"}
    stream = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": counts},
        {"type": "message_stop"},
    ]
    whole = {"choices": [{"message": CHAT, "finish_reason": "stop"}], "usage": chat}
    return {
        "anthropic": (message | {"usage": counts}, [events(*stream)]),
        "openai_chat": (whole, [events(ended), "data: [DONE]\n\n"]),
        "openai_responses": (
            response,
            [events({"type": "response.completed", "response": response})],
        ),
        "gemini": (gemini, [events(gemini)]),
        "ollama": (line, [json.dumps(line) + "\n"]),
    }


def events(*values: dict) -> str:
    return "".join(f"data: {json.dumps(value)}\n\n" for value in values)


async def counted(api: str, given: object, *, stream: bool) -> tuple[int, int]:
    """Return the two counts that a chat client gets."""
    body, pieces = bodies(given)[api]

    async def answer(_: Heard, line: Line) -> None:
        kind = "application/x-ndjson" if api == "ollama" else "text/event-stream"
        await line.head(kind=kind if stream else "application/json")
        for piece in pieces if stream else [json.dumps(body)]:
            await line.send(piece)
        await line.end()

    async with model_server(answer) as server:
        place = ProviderConfig(api=api, url=server.url, retries=0)
        config = Config(log="off", map={"default": "there/m"}, providers={"there": place})
        async with gateway(config) as (url, _):
            found = await Asker(url, "openai_chat", stream=stream).reply()
    assert (found.status, b"fine" in found.body) == (200, True), found.body
    lines = [line.removeprefix(b"data: ") for line in found.body.splitlines()]
    usage = next(json.loads(line)["usage"] for line in reversed(lines) if b'"usage":{' in line)
    return usage["prompt_tokens"], usage["completion_tokens"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("api", bodies(1))
async def test_a_count_is_read_however_it_is_written(api, stream):
    for given, count in READABLE:
        assert await counted(api, given, stream=stream) == (count, count), given
    estimates = {await counted(api, given, stream=stream) for given in UNREADABLE}
    missing = await counted(api, 0, stream=stream)
    assert estimates == {missing}


async def test_an_output_that_was_not_counted_is_the_same_in_a_stream_and_a_body():
    for given in (0, None):
        whole = await counted("anthropic", given, stream=False)
        assert await counted("anthropic", given, stream=True) == whole
