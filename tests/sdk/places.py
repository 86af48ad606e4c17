"""The same answer from five places: some text, a call in pieces, and the counts in two steps."""

import json
from contextlib import asynccontextmanager

from tests.peers import Answer, Heard, Line, Server, model_server

from toolbridge.config import Config, ModelConfig, ProviderConfig, RatesConfig

QUIET = {"OLLAMA_HOST": "127.0.0.1:1", "HOME": "/nonexistent"}
"""An environment in which the demo model answers."""
RATES = RatesConfig(input=2.0, output=10.0, cache_read=0.5, cache_write=4.0)


def sse(*items: dict | str, named: bool = False) -> list[str]:
    frames = []
    for data in items:
        head = f"event: {data['type']}\n" if named and isinstance(data, dict) else ""
        text = data if isinstance(data, str) else json.dumps(data)
        frames.append(f"{head}data: {text}\n\n")
    return frames


def lines(*objects: dict) -> list[str]:
    return [json.dumps(item) + "\n" for item in objects]


ANTHROPIC = sse(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 20},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Look"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ing."}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"city": "Par'},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": 'is"}'},
    },
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 30},
    },
    {"type": "message_stop"},
    named=True,
)  # fmt: skip


def _chat(delta: dict, finish: str | None = None, **more) -> dict:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [choice],
        **more,
    }


def _chat_call(**function: str) -> dict:
    return {"tool_calls": [{"index": 0, "function": function}]}


CHAT = sse(
    _chat({"role": "assistant", "content": "Look"}),
    _chat({"content": "ing."}),
    _chat({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                           "function": {"name": "look", "arguments": ""}}]}),
    _chat(_chat_call(arguments='{"city": "Par')),
    _chat(_chat_call(arguments='is"}')),
    _chat({}, "tool_calls"),
    {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [],
     "usage": {"prompt_tokens": 120, "completion_tokens": 30,
               "prompt_tokens_details": {"cached_tokens": 20}}},
    "[DONE]",
)  # fmt: skip

_CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look"}
_SAID = {"type": "message", "id": "m_1", "role": "assistant"}
_TEXT = {"type": "output_text", "text": "Looking.", "annotations": []}
_RESPONSE = {"id": "resp_1", "object": "response", "model": "m"}
RESPONSES = sse(
    {"type": "response.created", "response": {**_RESPONSE, "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0,
     "item": {**_SAID, "status": "in_progress", "content": []}},
    {"type": "response.content_part.added", "item_id": "m_1", "output_index": 0, "content_index": 0,
     "part": {**_TEXT, "text": ""}},
    {"type": "response.output_text.delta", "item_id": "m_1", "output_index": 0, "content_index": 0,
     "delta": "Look"},
    {"type": "response.output_text.delta", "item_id": "m_1", "output_index": 0, "content_index": 0,
     "delta": "ing."},
    {"type": "response.output_item.done", "output_index": 0,
     "item": {**_SAID, "status": "completed", "content": [_TEXT]}},
    {"type": "response.output_item.added", "output_index": 1,
     "item": {**_CALL, "arguments": "", "status": "in_progress"}},
    {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1,
     "delta": '{"city": "Par'},
    {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1,
     "delta": 'is"}'},
    {"type": "response.output_item.done", "output_index": 1,
     "item": {**_CALL, "arguments": '{"city": "Paris"}', "status": "completed"}},
    {"type": "response.completed",
     "response": {**_RESPONSE, "status": "completed",
                  "output": [{**_SAID, "status": "completed", "content": [_TEXT]},
                             {**_CALL, "arguments": '{"city": "Paris"}', "status": "completed"}],
                  "usage": {"input_tokens": 120, "output_tokens": 30, "total_tokens": 150,
                            "input_tokens_details": {"cached_tokens": 20}}}},
    named=True,
)  # fmt: skip


def _gemini(*parts: dict, finish: str = "", **counts: int) -> dict:
    candidate: dict = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    found: dict = {"candidates": [candidate], "modelVersion": "m", "responseId": "r1"}
    return found | ({"usageMetadata": counts} if counts else {})


GEMINI = sse(
    _gemini({"text": "Look"}, promptTokenCount=120, cachedContentTokenCount=20,
            candidatesTokenCount=1),
    _gemini({"text": "ing."}),
    _gemini({"functionCall": {"name": "look", "args": {"city": "Paris"}}}, finish="STOP",
            promptTokenCount=120, cachedContentTokenCount=20, candidatesTokenCount=30),
)  # fmt: skip


def said(content: str = "", *, done: bool = False, **message) -> dict:
    line = {"model": "m", "message": {"role": "assistant", "content": content, **message}}
    counts = {"done_reason": "stop", "prompt_eval_count": 100, "eval_count": 30}
    return line | ({"done": True, **counts} if done else {"done": False})


OLLAMA = lines(
    said("Look"),
    said("ing."),
    said(tool_calls=[{"function": {"name": "look", "arguments": {"city": "Paris"}}}]),
    said(done=True),
)

ANSWERS = {
    "anthropic": ANTHROPIC,
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "gemini": GEMINI,
    "ollama": OLLAMA,
}


def kind_of(api: str) -> str:
    return "application/x-ndjson" if api == "ollama" else "text/event-stream"


def script(api: str, pieces: list[str] | None = None) -> Answer:
    """Return a server of `api` that always gives the same answer, piece by piece."""

    async def answer(heard: Heard, line: Line) -> None:
        if heard.path == "/api/show":
            await line.head(200, "application/json")
            await line.send(json.dumps({"capabilities": ["tools", "completion"]}))
        else:
            await line.head(200, kind_of(api))
            for piece in ANSWERS[api] if pieces is None else pieces:
                await line.send(piece)
        await line.end()

    return answer


def config_for(api: str, server: Server | str, **place) -> Config:
    url = server if isinstance(server, str) else server.url
    return Config(
        map={"default": "there/m"},
        providers={"there": ProviderConfig(api=api, url=url, **place)},
        models={"there/m": ModelConfig(rates=RATES)},
    )


@asynccontextmanager
async def place(api: str, answer: Answer | None = None, **settings):
    """Serve a provider of `api`; yield the server and a configuration that leads there."""
    async with model_server(answer or script(api)) as server:
        yield server, config_for(api, server, **settings)
