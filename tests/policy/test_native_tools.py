"""Server tools of one API become the tools of the vendor that answers, and nothing is lost unseen."""

import json

from msgspec.structs import replace
from tests.tables import every_row

from toolbridge import codecs, providers
from toolbridge.config import ModelConfig, ProviderConfig
from toolbridge.core.codec import Target
from toolbridge.policy.native_tools import native_tools, translated_tools
from toolbridge.routing.capabilities import LiveModel, facts_of, target_of
from toolbridge.routing.providers import own_server_tools
from toolbridge.translate import RequestOptions, plan

ALL = frozenset({"web_search", "web_fetch", "code_execution", "tool_search", "mcp"})
HI = {"role": "user", "content": "hi"}
SEARCH = {
    "type": "web_search_20260318",
    "name": "web_search",
    "max_uses": 3,
    "blocked_domains": ["example.com"],
    "user_location": {"type": "approximate", "city": "Bern", "country": "CH"},
}


def anthropic(*tools, **more):
    body = {"model": "m", "max_tokens": 99, "messages": [HI], "tools": [*tools], **more}
    return codecs.load("anthropic").decode_request(json.dumps(body).encode())


def responses(*tools, **more):
    body = {"model": "m", "input": "hi", "tools": [*tools], **more}
    return codecs.load("openai_responses").decode_request(json.dumps(body).encode())


def sent(request, api, tools=ALL, model="m", **quirks):
    target = Target(model=model, server_tools=frozenset(tools), quirks=quirks)
    ready = plan(request, codecs.load(api), target, RequestOptions())
    return ready.outgoing.body, [str(loss) for loss in ready.losses]


def test_a_search_of_anthropic_at_openai():
    body, lost = sent(anthropic(SEARCH), "openai_responses")
    place = {"type": "approximate", "city": "Bern", "country": "CH"}
    assert body["tools"] == [{"type": "web_search", "user_location": place}]
    assert body["max_tool_calls"] == 3
    assert "web_search_call.action.sources" in body["include"]
    assert lost == ["tools.0.blocked_domains: OpenAI's search can only be limited to domains"]


def test_a_search_of_anthropic_at_gemini_and_vertex():
    body, lost = sent(anthropic(SEARCH), "gemini", model="gemini-3.8-flash")
    assert body["tools"] == [{"googleSearch": {}}]
    names = [line.partition(":")[0] for line in lost]
    assert names == ["tools.0.max_uses", "tools.0.blocked_domains", "tools.0.user_location"]
    body, _ = sent(anthropic(SEARCH), "gemini", model="gemini-3.8-flash", exclude_domains=True)
    assert body["tools"] == [{"googleSearch": {"excludeDomains": ["example.com"]}}]


def test_a_search_of_openai_at_anthropic():
    search = {
        "type": "web_search",
        "filters": {"allowed_domains": ["example.org"]},
        "external_web_access": False,
    }
    body, lost = sent(responses(search, max_tool_calls=2), "anthropic")
    assert body["tools"] == [
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "max_uses": 2,
            "allowed_domains": ["example.org"],
        }
    ]
    assert lost == ["tools.0.external_web_access: Anthropic's search always uses the web"]


def test_a_forced_search_is_forced_where_that_is_possible():
    forced = anthropic(SEARCH, tool_choice={"type": "tool", "name": "web_search"})
    body, _ = sent(forced, "openai_responses")
    assert body["tool_choice"] == {"type": "web_search"}
    body, lost = sent(forced, "gemini", model="gemini-3.8-flash")
    assert "toolConfig" not in body
    assert any(line.endswith("Gemini cannot force a built-in tool") for line in lost)


def test_gemini_before_3_has_no_search_beside_functions():
    request = anthropic(SEARCH, {"name": "read", "input_schema": {"type": "object"}})
    body, lost = sent(request, "gemini", model="gemini-2.5-flash")
    assert [*body["tools"][0]] == ["functionDeclarations"]
    assert any("is not offered here" in line for line in lost)
    body, _ = sent(request, "gemini", model="gemini-3.8-flash")
    assert {key for entry in body["tools"] for key in entry} == {
        "functionDeclarations",
        "googleSearch",
    }
    assert body["toolConfig"]["includeServerSideToolInvocations"] is True


def test_an_mcp_server_that_needs_approvals_stays_with_openai():
    mcp = {"type": "mcp", "server_label": "dice", "server_url": "https://d.example/mcp"}
    body, lost = sent(responses(mcp), "anthropic")
    assert "mcp_servers" not in body
    assert any("not offered here" in line for line in lost)
    free = mcp | {"require_approval": "never", "authorization": "tok", "allowed_tools": ["roll"]}
    body, lost = sent(responses(free), "anthropic")
    assert body["mcp_servers"] == [
        {
            "type": "url",
            "name": "dice",
            "url": "https://d.example/mcp",
            "authorization_token": "tok",
        }
    ]
    assert body["tools"] == [
        {
            "type": "mcp_toolset",
            "mcp_server_name": "dice",
            "configs": {"roll": {"enabled": True}},
            "default_config": {"enabled": False},
        }
    ]
    assert lost == []


def test_openrouter_has_a_search_for_every_model():
    body, lost = sent(anthropic(SEARCH), "openai_chat", web_search="openrouter")
    limits = {"excluded_domains": ["example.com"]}
    assert body["tools"] == [{"type": "openrouter:web_search", "parameters": limits}]
    assert [line.partition(":")[0] for line in lost] == [
        "tools.0.max_uses",
        "tools.0.user_location",
    ]


@every_row("api", ["anthropic", "openai_responses", "gemini", "openai_chat"])
def test_a_provider_without_the_tool_gets_none(api):
    request = responses({"type": "web_search"}) if api == "anthropic" else anthropic(SEARCH)
    codec = codecs.load(api)
    assert native_tools(request, codec, Target(model="m")) == (request, [])
    only = Target(model="m", server_tools=frozenset({"code_execution"}))
    assert translated_tools(request, codec, only) == request
    assert translated_tools(request, None, only) is request


def test_only_the_vendors_own_servers_have_the_tools():
    shipped = providers.load("openai")
    assert own_server_tools(shipped) == {"web_search", "code_execution", "mcp"}
    assert own_server_tools(ProviderConfig(api="openai_responses", url=shipped.url)) == {
        "web_search", "code_execution", "mcp",
    }  # fmt: skip
    elsewhere = replace(shipped, url="http://127.0.0.1:1/v1", server_tools=None)
    assert own_server_tools(elsewhere) == frozenset()
    set_by_the_user = replace(elsewhere, server_tools=("web_search",))
    assert own_server_tools(set_by_the_user) == {"web_search"}


@every_row(
    ("model", "searches"),
    [("gpt-5.5", True), ("gpt-4.1-nano", False), ("gpt-4.1-nano-2025-04-14", False), ("new", True)],
)
def test_a_model_of_a_vendor_may_have_no_search(model, searches):
    shipped, settings = providers.load("openai"), ModelConfig()
    facts = facts_of("openai", shipped, model, settings, LiveModel())
    target = target_of("openai", shipped, model, settings, facts)
    assert ("web_search" in target.server_tools) is searches
    assert "code_execution" in target.server_tools
