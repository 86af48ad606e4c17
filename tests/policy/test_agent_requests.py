"""Side requests of coding agents: which are recognized, and which conversations must not be."""

import json
import os
from pathlib import Path

import msgspec
import pytest
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.messages import OutputFormat, Request, Text, Tool, Turn
from toolbridge.policy.agent_requests import client_of, kind_of
from toolbridge.policy.session_key import session_key

CLAUDE = {"user-agent": "claude-cli/2.1.325 (external, cli)", "x-claude-code-session-id": "s-1"}
OPENCODE = {"user-agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.46", "x-session-id": "o-1"}
CODEX = {"user-agent": "codex_exec/0.166.0 (Debian 12.0.0; x86_64)", "session-id": "c-1"}
GEMINI = {"user-agent": "GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)"}
SCRIPT = {"user-agent": "python-httpx/0.28"}
TITLE = {"type": "object", "properties": {"title": {"type": "string"}}}
WIDE = {"type": "object", "properties": {name: {} for name in "abc"}}
BASH = Tool("Bash")
SEARCH = Tool("web_search", hosted={"type": "web_search_20250305"})
BILLING = "x-anthropic-billing-header: cc_version=2.1.325.c6d;"


def asked(*system: str, user: str = "fix the bug", tools=(), schema=None) -> Request:
    return Request(
        model="m",
        system=tuple(map(Text, system)),
        turns=(Turn("user", (Text(user),)),),
        tools=tuple(tools),
        output=OutputFormat(schema) if schema else None,
    )


def metadata(kind: str) -> dict[str, str]:
    return {**CODEX, "x-codex-turn-metadata": json.dumps({"request_kind": kind, "session_id": "c"})}


BACKGROUND = {
    "title by schema": (asked(BILLING, "new words", schema=TITLE), CLAUDE),
    "title by words": (asked(BILLING, "You are naming a coding session so that …"), CLAUDE),
    "web search": (asked(user="Perform a web search for the query: x", tools=[SEARCH]), CLAUDE),
    "web fetch": (asked("a", "b", user="\nWeb page content:\n---\ntext"), CLAUDE),
    "of a subagent": (asked(schema=TITLE), CLAUDE | {"x-claude-code-agent-id": "a1"}),
    "opencode title": (asked("You are a title generator. You output …"), OPENCODE),
    "loop check": (asked("the whole system prompt", schema=TITLE), GEMINI),
    "codex memory": (asked(tools=[BASH]), metadata("memory")),
    "consolidation": (asked(), CODEX | {"x-openai-subagent": "memory_consolidation"}),
}
MAIN = {
    "a conversation": (asked(BILLING, "You are an agent", tools=[BASH]), CLAUDE),
    "compaction": (asked(user="CRITICAL: Respond with TEXT ONLY.", tools=[BASH]), CLAUDE),
    "codex turn": (asked(tools=[BASH]), metadata("turn")),
    "codex compaction, without tools": (asked(schema=TITLE), metadata("compaction")),
    "codex prewarm": (asked(), metadata("prewarm")),
    "a script with a small schema": (asked(schema=TITLE), SCRIPT),
    "a script with an agent's words": (asked("You are a title generator."), SCRIPT),
    "an agent's words in another agent": (asked("You are a title generator."), CLAUDE),
    "words that are quoted": (asked(user="What does “Web page content:\n---” mean?"), CLAUDE),
    "no tools, nothing else": (asked("You are an agent"), CLAUDE),
    "a wide schema": (asked(schema=WIDE), CLAUDE),
    "a schema and tools": (asked(schema=TITLE, tools=[BASH]), CLAUDE),
    "a system text before the last": (asked("You are naming a coding session", "b"), CLAUDE),
    "broken metadata": (asked(tools=[BASH]), CODEX | {"x-codex-turn-metadata": "{"}),
    "metadata of another shape": (asked(tools=[BASH]), CODEX | {"x-codex-turn-metadata": "[1]"}),
    "no client at all": (asked(), {}),
}
SUBAGENT = {
    "claude code": (asked(tools=[BASH]), CLAUDE | {"x-claude-code-agent-id": "a0"}),
    "codex review": (asked(tools=[BASH]), CODEX | {"x-openai-subagent": "review"}),
    "codex spawn": (asked(), metadata("turn") | {"x-openai-subagent": "collab_spawn"}),
}


@every_row(
    ("case", "kind"),
    [
        pytest.param(case, kind, id=f"{kind}: {name}")
        for kind, cases in (("background", BACKGROUND), ("main", MAIN), ("subagent", SUBAGENT))
        for name, case in cases.items()
    ],
)
def test_the_kind_of_a_request(case, kind):
    request, headers = case
    assert kind_of(request, headers) == kind


def test_clients():
    plain = asked("You are an agent")
    assert [client_of(plain, h) for h in (CLAUDE, CODEX, GEMINI, OPENCODE, SCRIPT, {})] == [
        "claude-code", "codex", "gemini-cli", "opencode", "", "",
    ]  # fmt: skip
    # Qwen Code imitates Claude Code's User-Agent in the Anthropic API.
    assert client_of(asked("You are Qwen Code, an agent"), CLAUDE) == "qwen-code"


# ── sessions ──


def test_a_session_has_one_key_whatever_is_asked():
    title, main = asked(BILLING, schema=TITLE), asked("You are an agent", tools=[BASH])
    assert session_key(title, CLAUDE) == session_key(main, CLAUDE)
    assert session_key(main, CLAUDE) != session_key(
        main, CLAUDE | {"x-claude-code-session-id": "s-2"}
    )
    assert session_key(main, CLAUDE | {"x-claude-code-agent-id": "a"}) != session_key(main, CLAUDE)


def test_the_key_comes_from_the_first_id_that_there_is():
    plain = asked()
    user = msgspec.structs.replace(plain, user='{"device_id":"d","session_id":"u-1"}')
    keyed = msgspec.structs.replace(user, session="cache-key")
    assert session_key(user, {}) == session_key(plain, {"session-id": "u-1"})
    assert session_key(keyed, {}) == session_key(plain, {"session-id": "cache-key"})
    assert session_key(keyed, CLAUDE) == session_key(plain, CLAUDE)
    for broken in ("{", '{"session_id":5}', "someone"):
        other = msgspec.structs.replace(plain, user=broken)
        assert session_key(other, {}) == session_key(plain, {})


def test_without_an_id_the_beginning_of_the_conversation_is_the_key():
    first = asked(f"{BILLING}\n", "You are an agent")
    later = msgspec.structs.replace(
        asked("x-anthropic-billing-header: cc_version=other;\n", "You are an agent"),
        turns=(*first.turns, Turn("assistant", (Text("done"),)), Turn("user", (Text("more"),))),
    )
    assert session_key(first, {}) == session_key(later, {})
    assert session_key(first, {}) != session_key(asked("You are an agent", user="other"), {})
    assert "fix" not in session_key(first, {})
    assert session_key(asked(user="\ud800"), {})  # a lone surrogate


def test_the_parts_of_a_key_do_not_run_together():
    one, other = asked("ab", user="c"), asked("a", user="bc")
    assert session_key(one, {}) != session_key(other, {})


# ── captures ──

BESIDE = Path(__file__).parents[2] / "../shared/clients/captures"
CAPTURES = Path(os.environ.get("TOOLBRIDGE_CAPTURES", BESIDE))
"""Requests of real agents, each with its headers and body; not part of the repository."""
KINDS = {
    "claude_code_tui_1": "background",
    "claude_code_websearch_1": "background",
    "claude_code_subagent_2": "subagent",
    "opencode_anthropic_0": "background",
    "opencode_chat_0": "background",
    "opencode_gemini_0": "background",
    "opencode_responses_0": "background",
}
APIS = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/v1beta/models": "gemini",
}


def test_captures_of_real_agents():
    files = sorted(CAPTURES.glob("*.json"))
    if not files:
        pytest.skip(f"there are no captures in {CAPTURES}; set TOOLBRIDGE_CAPTURES")
    seen = {}
    for file in files:
        capture = json.loads(file.read_text("utf-8"))
        api = next((api for path, api in APIS.items() if capture["path"].startswith(path)), "")
        if capture["method"] != "POST" or not api or "count_tokens" in capture["path"]:
            continue
        headers = {name.lower(): value for name, value in dict(capture["headers"]).items()}
        body = json.dumps(capture["body"]).encode()
        request = codecs.load(api).decode_request(body, model=capture["body"].get("model", "m"))
        seen[file.stem] = (client_of(request, headers), kind_of(request, headers))
    assert len(seen) > 60
    for name, (client, kind) in seen.items():
        assert kind == KINDS.get(name, "main"), name
        assert name.replace("_", "-").startswith(client), name
        assert client, name
