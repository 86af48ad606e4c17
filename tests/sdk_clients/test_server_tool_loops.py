"""Answers in which the gateway runs tools: the types of the SDKs accept every event over a socket."""

import aiohttp
import pytest
from tests.scripted_chat import call, says, searching
from tests.sdk_clients.test_server_tools import EVENTS, WHOLE, events_of
from tests.server.test_server_tool_kinds import MCP

from toolbridge.server_tool_settings import CodeExecutionSettings, WebFetchSettings

TEXT = "Where is Zürich? See https://example.org/a and run it."
ANSWER = says("In Switzerland, says [Zürich](https://example.org/a). 🙂", prompt=30, output=7)
FUNCTION = {"type": "object", "properties": {"path": {"type": "string"}}}


def anthropic(*kinds: str) -> tuple[str, dict]:
    tools = {
        "web_search": {"type": "web_search_20250305", "name": "web_search"},
        "web_fetch": {"type": "web_fetch_20250910", "name": "web_fetch"},
        "code_execution": {"type": "code_execution_20250522", "name": "code_execution"},
        "mcp": {"type": "mcp_toolset", "mcp_server_name": "all"},
        "Read": {"name": "Read", "input_schema": FUNCTION},
    }
    asked = {"model": "m", "max_tokens": 999, "messages": [{"role": "user", "content": TEXT}]}
    return "/v1/messages", asked | {"tools": [tools[kind] for kind in kinds]}


def responses(*kinds: str) -> tuple[str, dict]:
    tools = {
        "web_search": {"type": "web_search"},
        "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
        "mcp": {"type": "mcp", "server_label": "all", "require_approval": "never"},
        "Read": {"type": "function", "name": "Read", "parameters": FUNCTION},
    }
    chosen = [tools[kind] for kind in kinds if kind in tools]
    include = ["web_search_call.action.sources", "code_interpreter_call.outputs"]
    return "/v1/responses", {"model": "m", "input": TEXT, "tools": chosen, "include": include}


def gemini(*kinds: str) -> tuple[str, dict]:
    tools = {
        "web_search": {"googleSearch": {}},
        "web_fetch": {"urlContext": {}},
        "code_execution": {"codeExecution": {}},
        "Read": {"functionDeclarations": [{"name": "Read", "parameters": FUNCTION}]},
    }
    asked = {"contents": [{"role": "user", "parts": [{"text": TEXT}]}]}
    return "/v1beta/models/m:generateContent", asked | {
        "tools": [tools[kind] for kind in kinds if kind in tools]
    }


def chat(*kinds: str) -> tuple[str, dict]:
    function = {"type": "function", "function": {"name": "Read", "parameters": FUNCTION}}
    asked = {"model": "m", "messages": [{"role": "user", "content": TEXT}]}
    asked |= {"web_search_options": {}} if "web_search" in kinds else {}
    return "/v1/chat/completions", asked | ({"tools": [function]} if "Read" in kinds else {})


APIS = {
    "anthropic": anthropic,
    "openai_responses": responses,
    "gemini": gemini,
    "openai_chat": chat,
}
NAMES = {
    "gemini": {
        "web_search": "googleSearch", "web_fetch": "urlContext", "code_execution": "codeExecution",
    },
    "openai_responses": {"code_execution": "code_interpreter"},
}  # fmt: skip
"""The names of the functions, where they are not those of the kinds."""
STORIES = {
    "search": [("web_search", {"query": "zürich"})],
    "two searches": [("web_search", {"query": "a"}), ("web_search", {"query": "b"})],
    "search and a client's call": [("web_search", {"query": "a"}), ("Read", {"path": "x"})],
    "failed search": [("web_search", {"query": "zürich"})],
    "failed fetch": [("web_fetch", {"url": "https://example.org/a"})],
    "code": [("code_execution", {"code": "print(1)"})],
    "mcp": [("mcp", {"text": "hi"})],
}


WITHOUT = {
    "openai_chat": {"web_fetch", "code_execution", "mcp"},
    "openai_responses": {"web_fetch"},
    "gemini": {"mcp"},
}
"""The kinds of tools that a request of an API cannot declare for a server of the settings."""
PAIRS = [
    (api, story)
    for api in APIS
    for story, calls in STORIES.items()
    if not WITHOUT.get(api, set()).intersection(kind for kind, _ in calls)
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("api", "story"), PAIRS)
async def test_the_sdk_knows_every_event(api, story, stream):
    calls = STORIES[story]
    kinds = list(dict.fromkeys(kind for kind, _ in calls))
    path, asked = APIS[api](*kinds)
    if stream and api == "gemini":
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    elif stream:
        asked |= {"stream": True}
    made = [
        call(
            "all__echo" if kind == "mcp" else NAMES.get(api, {}).get(kind, kind), f"c{at}", **given
        )
        for at, (kind, given) in enumerate(calls)
    ]
    settings = {
        "mcp": {"all": MCP},
        "code_execution": CodeExecutionSettings(server="all", tool="echo"),
        # Nothing listens there: no request leaves this machine.
        "web_fetch": WebFetchSettings(proxy="http://127.0.0.1:1"),
    }
    async with searching(says("I will look. ", *made), ANSWER, server_tools=settings) as (
        url, _, double, _,
    ):  # fmt: skip
        double.faults = [429, 429] if story == "failed search" else []
        async with (
            aiohttp.ClientSession() as session,
            session.post(url + path, json=asked) as answer,
        ):
            written = await answer.read()
    assert answer.status == 200, written
    assert bool(double.asked) is ("web_search" in kinds)
    if not stream:
        WHOLE[api].validate_json(written)
        return
    events = events_of(written, api)
    assert len(events) > 2
    for event in events:
        event.pop("toolbridge", None)  # losses: a field of ours in the last event
        if event.get("type") != "ping":
            EVENTS[api].validate_python(event)
