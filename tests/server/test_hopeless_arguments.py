"""Arguments that nobody can read never become a command, and a call that the limit cut is no call."""

import json

import aiohttp
import pytest
from tests.peers import bridged, model_server, replay, whole
from tests.peers import gateway as serve_gateway

from toolbridge.config import Config, ProviderConfig

SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
    "required": ["command"],
}
FUNCTION = {"name": "Bash", "description": "Run a command", "parameters": SCHEMA}
PROMPT = "what is here"
CHAT = {
    "model": "m",
    "messages": [{"role": "user", "content": PROMPT}],
    "tools": [{"type": "function", "function": FUNCTION}],
}
SURFACES = {
    "anthropic": (
        "/v1/messages",
        {
            "model": "m",
            "max_tokens": 99,
            "messages": [{"role": "user", "content": PROMPT}],
            "tools": [{"name": "Bash", "input_schema": SCHEMA}],
        },
    ),
    "openai_chat": ("/v1/chat/completions", CHAT),
    "openai_responses": (
        "/v1/responses",
        {"model": "m", "input": PROMPT, "tools": [{"type": "function", **FUNCTION}]},
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
            "tools": [{"functionDeclarations": [FUNCTION]}],
        },
    ),
    "ollama": ("/api/chat", CHAT),
}


async def ask(url: str, api: str, *, stream: bool, tools: bool = True) -> str:
    """Return all that the client of `api` gets."""
    path, body = SURFACES[api]
    body = body if tools else {name: part for name, part in body.items() if name != "tools"}
    if api == "gemini":
        path = path.replace(":g", ":streamG") + "?alt=sse" if stream else path
    else:
        body = body | {"stream": stream}
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as answer:
        text = await answer.text()
        assert answer.status == 200, text
        return text


def calls_in(text: str) -> list[dict]:
    """Return the whole calls of a Gemini or Ollama answer, streamed or not."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.strip()]
    found = []
    for line in lines:
        said = json.loads(line)
        for candidate in said.get("candidates", []):
            found += [
                p["functionCall"] for p in candidate["content"]["parts"] if "functionCall" in p
            ]
        found += [c["function"] for c in said.get("message", {}).get("tool_calls", [])]
    return found


def ollama_call(arguments: object):
    call = {"function": {"name": "Bash", "arguments": arguments}}
    return replay(
        {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False},
        {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
    )


@pytest.mark.req("PX-27")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("words", ["not-json", '"rm -rf /"', '["rm -rf /"]', "rm -rf /"])
@pytest.mark.parametrize("api", SURFACES)
async def test_words_are_no_command(api, words, stream):
    async with bridged(ollama_call(words), place={"passthrough": False}) as (url, *_):
        text = await ask(url, api, stream=stream)
    assert "raw" in text
    assert '"command":"' not in text.replace("\\", "")


@pytest.mark.req("PX-27")
async def test_the_text_of_hopeless_arguments_is_in_raw():
    async with bridged(ollama_call("not-json")) as (url, *_):
        said = json.loads(await ask(url, "anthropic", stream=False))
    assert [b["input"] for b in said["content"] if b["type"] == "tool_use"] == [{"raw": "not-json"}]


async def test_a_freeform_tool_takes_words():
    """A custom tool has no parameters: one text is all that it takes."""
    patch = "*** Begin Patch\n*** End Patch"
    call = {"function": {"name": "apply_patch", "arguments": patch}}
    chat = replay(
        {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False},
        {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
    )
    body = {"model": "m", "input": "x", "tools": [{"type": "custom", "name": "apply_patch"}]}
    async with (
        bridged(chat) as (url, *_),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/responses", json=body) as answer,
    ):
        said = await answer.json()
    assert [i["input"] for i in said["output"] if i["type"] == "custom_tool_call"] == [patch]


def cut_chat(*pieces: str):
    """Return a chat upstream whose call breaks off at the token limit, streamed or whole."""

    async def answer(heard, line):
        call = {"index": 0, "id": "call_1", "type": "function"}
        if not heard.json.get("stream"):
            function = {"name": "Bash", "arguments": "".join(pieces)}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [call | {"function": function}],
            }
            choice = {"index": 0, "message": message, "finish_reason": "length"}
            await whole(
                line, {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}
            )
            return
        await line.head(200, "text/event-stream")
        deltas = [{"tool_calls": [call | {"function": {"name": "Bash", "arguments": ""}}]}]
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": p}}]} for p in pieces]
        for delta, reason in [*((d, None) for d in deltas), ({}, "length")]:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            chunk = {
                "id": "c",
                "object": "chat.completion.chunk",
                "model": "m",
                "choices": [choice],
            }
            await line.send(f"data: {json.dumps(chunk)}\n\n")
        await line.send("data: [DONE]\n\n")
        await line.end()

    return answer


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", ["gemini", "ollama"])
@pytest.mark.parametrize("tools", [True, False])
async def test_a_call_that_the_token_limit_cut_is_no_call(api, stream, tools, capfd):
    async with model_server(cut_chat('{"command": "rm -rf /tmp/', "scra")) as server:
        config = Config(
            log="json",
            map={"default": "up/m"},
            providers={"up": ProviderConfig(api="openai_chat", url=server.url)},
        )
        async with serve_gateway(config) as (url, _):
            text = await ask(url, api, stream=stream, tools=tools)
    assert calls_in(text) == []
    assert "rm -rf" not in text
    assert '"MAX_TOKENS"' in text or '"length"' in text
    logged = "".join(capfd.readouterr())
    assert "Bash" in logged
    assert "token limit" in logged
