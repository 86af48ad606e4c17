"""What a client's request loses on its way, over real sockets: carried, or said in its own words."""

import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.peers import bridged, gateway, model_server, replay, whole
from tests.server.test_messages import body, call, line

from toolbridge.config import Config, ProviderConfig

WARNING = "x-toolbridge-warning"


async def post(url: str, path: str, request: dict) -> tuple[int, dict, dict]:
    """Return the status, the headers and the body of a whole reply."""
    async with aiohttp.ClientSession() as session, session.post(url + path, json=request) as reply:
        return reply.status, dict(reply.headers), await reply.json()


def answers(*replies: dict):
    """Answer one request after the other with a whole body."""
    left = list(replies)

    async def serve(_, heard_line):
        await whole(heard_line, left.pop(0) if len(left) > 1 else left[0])

    return serve


@asynccontextmanager
async def served(name: str, api: str, *replies: dict, models=("m",)):
    """Serve a gateway in front of a provider of one API."""
    async with model_server(answers(*replies)) as server:
        place = ProviderConfig(api=api, url=server.url, key="k", passthrough=False)
        map = {model: f"{name}/{model}" for model in models} | {"default": f"{name}/{models[0]}"}
        config = Config(log="off", map=map, providers={name: place})
        async with gateway(config) as (url, _):
            yield url, server


CHAT = {
    "id": "c1",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
}  # fmt: skip
SIGNED = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-a",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"},
        {"type": "text", "text": "yes"},
    ],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


def asked(server) -> list[dict]:
    return [heard.json for heard in server.heard if heard.method == "POST"]


# ── items of stored answers ──────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [True, False])
async def test_an_item_reference_is_resolved_from_the_stored_answer(stream):
    # The wire of Vercel's @ai-sdk/openai: what the model said comes back by its id alone.
    chat = replay(line("one", done=True))
    async with bridged(chat, first_byte=5) as (url, server, _):
        first = {"model": "m", "input": [{"role": "user", "content": "first"}], "stream": stream}
        item = await _first_item(url, first, stream=stream)
        second = {
            "model": "m",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "first"}]},
                {"type": "item_reference", "id": item["id"]},
                {"role": "user", "content": [{"type": "input_text", "text": "second"}]},
            ],
        }
        status, _, _ = await post(url, "/v1/responses", second)
        assert status == 200
    sent = server.chats()[1].json["messages"]
    assert [(m["role"], m["content"]) for m in sent] == [
        ("user", "first"), ("assistant", "one"), ("user", "second"),
    ]  # fmt: skip


async def _first_item(url: str, request: dict, *, stream: bool) -> dict:
    if not stream:
        return (await post(url, "/v1/responses", request))[2]["output"][0]
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + "/v1/responses", json=request) as reply,
    ):
        data = [row[6:] for row in (await reply.text()).split("\n") if row.startswith("data: {")]
    done = [event for event in map(json.loads, data) if event["type"] == "response.completed"]
    return done[0]["response"]["output"][0]


async def test_a_referenced_call_finds_its_result():
    chat = replay(line(tool_calls=[call("f", a=1)], done=True))
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    async with bridged(chat, first_byte=5) as (url, server, _):
        first = {"model": "m", "input": "go", "tools": [tool]}
        (item,) = (await post(url, "/v1/responses", first))[2]["output"]
        output = {"type": "function_call_output", "call_id": item["call_id"], "output": "done"}
        second = {
            "model": "m",
            "tools": [tool],
            "input": [
                {"role": "user", "content": "go"},
                {"type": "item_reference", "id": item["id"]},
                output,
            ],
        }
        assert (await post(url, "/v1/responses", second))[0] == 200
    roles = [message["role"] for message in server.chats()[1].json["messages"]]
    assert roles == ["user", "assistant", "tool"]


async def test_a_reference_to_nothing_names_the_id_and_why():
    async with bridged(replay(line("one", done=True))) as (url, _, _):
        first = {"model": "m", "input": "first", "store": False}
        item = (await post(url, "/v1/responses", first))[2]["output"][0]
        items = [{"role": "user", "content": "a"}, {"type": "item_reference", "id": item["id"]}]
        status, _, said = await post(url, "/v1/responses", {"model": "m", "input": items})
    assert status == 400
    assert item["id"] in said["error"]["message"]
    assert "store" in said["error"]["message"]
    assert said["error"]["param"] == "input.1"


# ── signatures and files ─────────────────────────────────────────────────────


async def test_a_signature_goes_back_to_the_model_that_made_it_and_to_no_other():
    models = ("claude-a", "claude-b")
    async with served("there", "anthropic", SIGNED, models=models) as (url, server):
        first = body("hi", stream=False, model="claude-a")
        _, _, said = await post(url, "/v1/messages", first)
        history = [
            *first["messages"],
            {"role": "assistant", "content": said["content"]},
            {"role": "user", "content": "again"},
        ]
        warnings = []
        for model in models:
            request = body(stream=False, model=model, messages=history)
            warnings.append((await post(url, "/v1/messages", request))[1].get(WARNING, ""))
    _, same, other = (json.dumps(request["messages"]) for request in asked(server))
    assert "c2lnbmVk" in same
    assert "c2lnbmVk" not in other
    assert warnings[0] == ""
    assert warnings[1].startswith("messages.1.content.0: was signed by there/claude-a")


@pytest.mark.parametrize(
    ("provider", "forwarded"), [("groq", False), ("openai", True), ("my-own", True)]
)
async def test_a_file_id_is_sent_only_to_the_provider_that_keeps_the_file(provider, forwarded):
    parts = [
        {"type": "text", "text": "Read"},
        {"type": "file", "file": {"file_id": "file-abc123", "filename": "a.pdf"}},
    ]
    request = {"model": "m", "messages": [{"role": "user", "content": parts}]}
    async with served(provider, "openai_chat", CHAT) as (url, server):
        status, headers, _ = await post(url, "/v1/chat/completions", request)
    sent = json.dumps(asked(server)[0])
    assert status == 200
    assert ("file-abc123" in sent) is forwarded
    warning = headers.get(WARNING, "")
    assert ("messages.0.content.1: the file is kept by openai" in warning) is not forwarded


async def test_an_anthropic_file_is_never_sent_to_openai():
    source = {"type": "file", "file_id": "file_011C"}
    blocks = [{"type": "document", "source": source}, {"type": "text", "text": "Read"}]
    request = body(stream=False, messages=[{"role": "user", "content": blocks}])
    async with served("openai", "openai_chat", CHAT) as (url, server):
        _, headers, _ = await post(url, "/v1/messages", request)
    assert "file_011C" not in json.dumps(asked(server)[0])
    assert headers[WARNING].startswith("messages.0.content.0: the file is kept by anthropic")


# ── fields ───────────────────────────────────────────────────────────────────


async def test_what_chat_has_too_is_carried_and_no_internal_name_is_shown():
    request = {
        "model": "m",
        "input": [
            {"role": "user", "content": "hi"},
            {
                "type": "message",
                "role": "assistant",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "hm", "annotations": []}],
            },
            {"role": "user", "content": "hi"},
        ],
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "text": {"verbosity": "low"},
        "store": True,
        "truncation": "auto",
        "max_tool_calls": 3,
    }
    async with served("openai", "openai_chat", CHAT) as (url, server):
        _, headers, _ = await post(url, "/v1/responses", request)
    sent = asked(server)[0]
    assert (sent["metadata"], sent["service_tier"], sent["verbosity"]) == (
        {"a": "b"},
        "flex",
        "low",
    )
    # The rest is in the log: no answer depends on it. Without hosted tools none can be called.
    assert headers[WARNING] == "truncation: Chat Completions has no field for it"


async def test_stream_options_and_store_are_no_losses():
    request = {
        "model": "m", "stream": False, "store": True, "stream_options": None,
        "messages": [{"role": "user", "content": "hi", "name": "ada"}],
    }  # fmt: skip
    async with served("there", "anthropic", SIGNED) as (url, _):
        _, headers, _ = await post(url, "/v1/chat/completions", request)
    assert headers[WARNING] == "messages.0.name: Anthropic's API has no field for it"


async def test_excess_stop_sequences_are_looked_for_in_the_answer():
    reply = json.loads(json.dumps(CHAT))
    reply["choices"][0]["message"]["content"] = "one five two"
    request = body(stream=False, stop_sequences=["a1", "b2", "c3", "d4", "five"])
    async with served("there", "openai_chat", reply) as (url, server):
        _, _, said = await post(url, "/v1/messages", request)
    assert asked(server)[0]["stop"] == ["a1", "b2", "c3", "d4"]
    assert said["content"] == [{"type": "text", "text": "one "}]
    assert (said["stop_reason"], said["stop_sequence"]) == ("stop_sequence", "five")


# ── tools ────────────────────────────────────────────────────────────────────


async def test_the_client_runs_its_own_bash_whatever_the_model():
    tools = [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    ]
    chat = replay(line(tool_calls=[call("bash", command="ls")], done=True))
    async with bridged(chat, first_byte=5) as (url, server, _):
        request = body(stream=False, tools=tools)
        _, headers, said = await post(url, "/v1/messages", request)
        history = [
            *request["messages"],
            {"role": "assistant", "content": said["content"]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": said["content"][0]["id"],
                        "content": "a.txt",
                    }
                ],
            },
        ]
        status, _, _ = await post(
            url, "/v1/messages", body(stream=False, tools=tools, messages=history)
        )
    offered = [tool["function"] for tool in server.chats()[0].json["tools"]]
    assert [tool["name"] for tool in offered] == ["bash", "str_replace_based_edit_tool"]
    assert set(offered[0]["parameters"]["properties"]) == {"command", "restart"}
    assert offered[1]["parameters"]["required"] == ["command", "path"]
    assert WARNING not in headers
    (used,) = said["content"]
    assert (used["type"], used["name"], used["input"]) == ("tool_use", "bash", {"command": "ls"})
    assert status == 200
    assert [m["role"] for m in server.chats()[1].json["messages"]] == ["user", "assistant", "tool"]


SCHEMA = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("search", "offered"),
    [
        # The gateway searches: they wait.
        (
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
            ["tool_search_tool_bm25", "a"],
        ),
        # Nothing searches: the tools would never be found.
        ({"name": "b", "input_schema": SCHEMA}, ["b", "a", "late"]),
        # The client searches, as Claude Code does: they wait.
        ({"name": "ToolSearch", "input_schema": SCHEMA}, ["ToolSearch", "a"]),
    ],
)
async def test_deferred_tools_wait_only_where_something_can_search_for_them(search, offered):
    tools = [
        search,
        {"name": "a", "input_schema": SCHEMA},
        {"name": "late", "input_schema": SCHEMA, "defer_loading": True},
    ]
    async with bridged(replay(line("one", done=True))) as (url, server, _):
        await post(url, "/v1/messages", body(stream=False, tools=tools))
    sent = server.chats()[0].json["tools"]
    assert [tool["function"]["name"] for tool in sent] == offered
