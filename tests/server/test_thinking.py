"""Thinking over real sockets: one rule for all five APIs, and what a model that can think is told."""

import json

import aiohttp
import pytest
from tests.peers import SHOW, bridged, gateway, line_of, model_server, replay, whole

from toolbridge.config import Config, ProviderConfig

PROMPT = [{"role": "user", "content": "x"}]
CANNOT = {"capabilities": ["completion", "tools"], "model_info": {}}
CHAT = {"model": "m", "messages": PROMPT, "stream": False}
PATHS = {
    "anthropic": ("/v1/messages", CHAT | {"max_tokens": 9000}),
    "openai_chat": ("/v1/chat/completions", CHAT),
    "openai_responses": ("/v1/responses", {"model": "m", "input": "x"}),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
    ),
    "ollama": ("/api/chat", CHAT),
}


def gemini(**config):
    return {"generationConfig": {"thinkingConfig": config}}


WAYS = {
    "level": {
        "anthropic": {"output_config": {"effort": "high"}, "thinking": {"type": "adaptive"}},
        "openai_chat": {"reasoning_effort": "high"},
        "openai_responses": {"reasoning": {"effort": "high"}},
        "gemini": gemini(thinkingLevel="HIGH"),
        "ollama": {"think": "high"},
    },
    "budget": {
        "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        "gemini": gemini(thinkingBudget=2048),
    },
    "adaptive": {
        "anthropic": {"thinking": {"type": "adaptive"}},
        "openai_responses": {"reasoning": {"summary": "auto"}},
        "gemini": gemini(thinkingBudget=-1),
        "ollama": {"think": True},
    },
    "disabled": {
        "anthropic": {"thinking": {"type": "disabled"}},
        "openai_chat": {"reasoning_effort": "none"},
        "openai_responses": {"reasoning": {"effort": "none"}},
        "gemini": gemini(thinkingBudget=0),
        "ollama": {"think": False},
    },
}
ROWS = [(way, api) for way, apis in WAYS.items() for api in apis]
AGENTS = {
    "anthropic": "claude-cli/2.1.325 (external, sdk-cli)",
    "gemini": "GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)",
}
CODEX = "codex_exec/0.166.0 (Debian 12.0.0; x86_64)"
ANSWER = replay(line_of("hello"), line_of("", done=True))


async def ask(url: str, api: str, more: dict, agent: str = ""):
    path, body = PATHS[api]
    headers = {"user-agent": agent or "python-httpx/1"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url + path, json=body | more) as answer,
    ):
        return answer, await answer.text()


def verdict(way: str, *, agent: bool, setting: str) -> str:
    """Return what becomes of the wish: the rule of docs/reference/settings.md."""
    if way == "disabled":
        return "silent"
    if setting == "reject":
        return "error"
    if setting == "auto" and way == "budget" and not agent:
        return "error"
    return "dropped"


@pytest.mark.req("PX-19", "PX-X1")
@pytest.mark.parametrize("setting", ["auto", "drop", "reject"])
@pytest.mark.parametrize("agent", [True, False], ids=["agent", "caller"])
@pytest.mark.parametrize(("way", "api"), ROWS)
async def test_one_rule_for_a_model_that_cannot_think(way, api, agent, setting):
    by = AGENTS.get(api, CODEX) if agent else ""
    place = {"passthrough": False}
    async with bridged(ANSWER, show=CANNOT, place=place, thinking=setting) as (url, server, _):
        answer, said = await ask(url, api, WAYS[way][api], by)
    warned = "think" in answer.headers.get("x-toolbridge-warning", "")
    match verdict(way, agent=agent, setting=setting):
        case "error":
            assert answer.status == 400, said
            assert "does not support thinking" in said
            assert server.chats() == []
        case "dropped":
            assert answer.status == 200, said
            assert warned
            assert "think" not in server.chats()[0].json
        case "silent":
            assert answer.status == 200, said
            assert not warned
            assert server.chats()[0].json.get("think") is None


@pytest.mark.parametrize("api", [api for api in PATHS if api != "ollama"])
async def test_a_model_that_can_think_does_not_unless_it_is_asked(api):
    async with bridged(ANSWER, show=SHOW) as (url, server, _):
        await ask(url, api, {})
    assert server.chats()[0].json["think"] is False


async def test_an_ollama_client_that_says_nothing_gets_what_ollama_does():
    async with bridged(ANSWER, show=SHOW, place={"passthrough": False}) as (url, server, _):
        await ask(url, "ollama", {})
    assert "think" not in server.chats()[0].json


@pytest.mark.parametrize(
    ("api", "more", "sent"),
    [
        ("anthropic", WAYS["level"]["anthropic"], "high"),
        ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "low"),
        ("anthropic", WAYS["disabled"]["anthropic"], "low"),
        ("openai_chat", {"reasoning_effort": "minimal"}, "low"),
        ("openai_chat", {"reasoning_effort": "none"}, "low"),
        ("openai_responses", {"reasoning": {"effort": "medium"}}, "medium"),
        ("gemini", gemini(thinkingLevel="LOW"), "low"),
        ("openai_chat", {}, None),
    ],
)
async def test_gpt_oss_gets_its_levels(api, more, sent):
    async with bridged(ANSWER, show=SHOW, models=("gpt-oss:20b",)) as (url, server, _):
        answer, said = await ask(url, api, more)
    assert answer.status == 200, said
    assert server.chats()[0].json.get("think") == sent


@pytest.mark.parametrize(
    ("more", "sent"),
    [
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "high"),
        ({"thinking": {"type": "disabled"}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "low"),
    ],
)
async def test_gpt_oss_behind_chat_gets_its_levels(more, sent):
    reply = {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "x"}}
        ],
    }

    async def chat(_, line):
        await whole(line, reply)

    async with model_server(chat) as server:
        place = ProviderConfig(api="openai_chat", url=server.url)
        config = Config(log="off", map={"default": "up/gpt-oss-20b"}, providers={"up": place})
        async with gateway(config) as (url, _):
            answer, said = await ask(url, "anthropic", more)
    assert answer.status == 200, said
    assert server.heard[0].json["reasoning_effort"] == sent


async def test_top_k_is_not_sent_with_thinking_to_anthropic():
    reply = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "x"}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }

    async def answer(_, line):
        await whole(line, reply)

    async with model_server(answer) as server:
        place = ProviderConfig(api="anthropic", url=server.url)
        config = Config(log="off", map={"default": "up/m"}, providers={"up": place})
        async with gateway(config) as (url, _):
            for think in (gemini(thinkingBudget=2048), gemini(thinkingBudget=0)):
                think["generationConfig"] |= {"topK": 40, "maxOutputTokens": 9000}
                said, text = await ask(url, "gemini", think)
                assert said.status == 200, text
    thinking, plain = (heard.json for heard in server.heard)
    assert "top_k" not in thinking
    assert thinking["thinking"]["type"] == "enabled"
    assert plain["top_k"] == 40
    assert json.loads(text)
