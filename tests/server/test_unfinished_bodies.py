"""A whole body whose stop reason says that the model has not ended is no answer, in any API."""

import pytest
from tests.peers import Heard, Line, gateway, model_server
from tests.peers import whole as reply_whole
from tests.resuming import APIS, Asker

from toolbridge.config import Config, ProviderConfig

TEXT = "half of it"
CHAT = {"role": "assistant", "content": TEXT}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT_COUNTS = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
BLOCK = {"type": "text", "text": TEXT}
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}  # fmt: skip
ITEM = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress",
    "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
}  # fmt: skip


def chat(*choices: dict) -> dict:
    numbered = [{"index": n, **choice} for n, choice in enumerate(choices)]
    return {"id": "c", "model": "m", "choices": numbered, "usage": CHAT_COUNTS}


UNFINISHED = {
    "chat": ("openai_chat", chat({"message": CHAT, "finish_reason": None})),
    "chat, empty": ("openai_chat", chat({"message": CHAT, "finish_reason": ""})),
    "chat, a call": (
        "openai_chat",
        chat({"message": CHAT | {"tool_calls": [CALL]}, "finish_reason": None}),
    ),
    "anthropic": ("anthropic", MESSAGE | {"content": [BLOCK], "stop_reason": None}),
    "anthropic, missing": ("anthropic", MESSAGE | {"content": [BLOCK]}),
    "responses": (
        "openai_responses",
        {"id": "r", "object": "response", "status": "in_progress", "model": "m", "output": [ITEM]},
    ),
    "gemini": (
        "gemini",
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": TEXT}]}}]},
    ),
    "ollama": ("ollama", {"model": "m", "message": CHAT, "done": False}),
}


def settings(api: str, url: str, *, passthrough: bool) -> Config:
    place = ProviderConfig(api=api, url=url, retries=0, passthrough=passthrough)
    return Config(log="off", map={"default": "there/m"}, providers={"there": place})


async def ask(body: dict, upstream: str, client: str, *, passthrough: bool = False):
    async def answer(_: Heard, line: Line) -> None:
        await reply_whole(line, body)

    async with model_server(answer) as server:
        config = settings(upstream, server.url, passthrough=passthrough)
        async with gateway(config) as (url, _):
            return await Asker(url, client, stream=False).reply()


@pytest.mark.parametrize("case", UNFINISHED)
async def test_it_is_an_error_of_the_provider(case):
    upstream, body = UNFINISHED[case]
    for client in APIS:
        found = await ask(body, upstream, client)
        assert found.status == 502, (client, found.body)
        assert TEXT.encode() not in found.body


@pytest.mark.parametrize("case", UNFINISHED)
async def test_it_is_an_error_where_bytes_are_passed_through(case):
    upstream, body = UNFINISHED[case]
    found = await ask(body, upstream, upstream, passthrough=True)
    assert found.status == 502, found.body


async def test_a_chat_body_without_the_field_is_complete():
    # mudler/LocalAI#788, maximhq/bifrost#1489: complete answers without `finish_reason`.
    body = chat({"message": CHAT})
    for client in APIS:
        found = await ask(body, "openai_chat", client)
        assert (found.status, TEXT.encode() in found.body) == (200, True), (client, found.body)
    found = await ask(body, "openai_chat", "openai_chat", passthrough=True)
    assert found.status == 200


async def test_each_choice_of_a_chat_body_has_its_own_end():
    whole = {"message": CHAT, "finish_reason": "stop"}
    for other, texts in (({"message": CHAT}, 2), ({"message": CHAT, "finish_reason": None}, 1)):
        found = await ask(chat(whole, other), "openai_chat", "openai_chat")
        assert (found.status, found.body.count(TEXT.encode())) == (200, texts), found.body
