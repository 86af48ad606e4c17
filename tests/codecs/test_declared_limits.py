"""The limits of server tools are checked in every API: a wrong one is an error, not no limit."""

import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.declared_limits import check_time
from toolbridge.core.errors import MalformedRequest
from toolbridge.tools.web.domains import is_allowed

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}
TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "t"}
HOSTED = {"type": "web_search"}
MCP = {"type": "mcp", "server_label": "t"}
ROUTER = {"type": "openrouter:web_search"}


def body(api: str, tool: dict, **fields) -> dict:
    user = {"role": "user", "content": "hi"}
    match api:
        case "anthropic":
            found = {"model": "m", "max_tokens": 9, "messages": [user], "tools": [tool]}
        case "openai_responses":
            found = {"model": "m", "input": "hi", "tools": [tool]}
        case "openai_chat":
            is_entry = isinstance(tool, dict) and "type" in tool
            tools = {"tools": [tool]} if is_entry else {"web_search_options": tool}
            found = {"model": "m", "messages": [user], **tools}
        case _:
            found = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "tools": [tool]}
    return found | fields


def decode(api: str, tool: dict, **fields):
    asked = json.dumps(body(api, tool, **fields)).encode()
    return codecs.load(api).decode_request(asked, model="m")


WRONG = [
    ("anthropic", SEARCH | {"allowed_domains": "a.example"}, "tools.0.allowed_domains"),
    ("anthropic", FETCH | {"allowed_domains": "a.example"}, "tools.0.allowed_domains"),
    ("anthropic", FETCH | {"blocked_domains": {"a.example": 1}}, "tools.0.blocked_domains"),
    ("anthropic", SEARCH | {"allowed_domains": ["b.example", 7]}, "tools.0.allowed_domains.1"),
    (
        "anthropic",
        SEARCH | {"allowed_domains": ["https://a.example/"]},
        "tools.0.allowed_domains.0",
    ),
    ("anthropic", SEARCH | {"blocked_domains": ["a.example:8080"]}, "tools.0.blocked_domains.0"),
    ("anthropic", SEARCH | {"blocked_domains": [""]}, "tools.0.blocked_domains.0"),
    ("anthropic", SEARCH | {"blocked_domains": ["ex*.com"]}, "tools.0.blocked_domains.0"),
    ("anthropic", SEARCH | {"blocked_domains": ["a.b/*/c/*"]}, "tools.0.blocked_domains.0"),
    (
        "anthropic",
        SEARCH | {"allowed_domains": ["a.b"], "blocked_domains": ["c.d"]},
        "tools.0.blocked_domains",
    ),
    ("anthropic", SEARCH | {"max_uses": "2"}, "tools.0.max_uses"),
    ("anthropic", SEARCH | {"max_uses": -1}, "tools.0.max_uses"),
    ("anthropic", SEARCH | {"max_uses": 0}, "tools.0.max_uses"),
    ("anthropic", SEARCH | {"max_uses": True}, "tools.0.max_uses"),
    ("anthropic", SEARCH | {"max_uses": 2.5}, "tools.0.max_uses"),
    ("anthropic", FETCH | {"max_content_tokens": "100"}, "tools.0.max_content_tokens"),
    ("anthropic", FETCH | {"citations": True}, "tools.0.citations"),
    ("anthropic", FETCH | {"citations": {"enabled": "yes"}}, "tools.0.citations.enabled"),
    ("anthropic", SEARCH | {"user_location": "Ulm"}, "tools.0.user_location"),
    ("anthropic", SEARCH | {"user_location": {"city": 1}}, "tools.0.user_location.city"),
    ("anthropic", SEARCH | {"user_location": {"type": "exact"}}, "tools.0.user_location.type"),
    (
        "anthropic",
        SEARCH | {"user_location": {"country": "Germany"}},
        "tools.0.user_location.country",
    ),
    ("anthropic", TOOLSET | {"mcp_server_name": ""}, "tools.0.mcp_server_name"),
    ("anthropic", TOOLSET | {"configs": ["read"]}, "tools.0.configs"),
    ("anthropic", TOOLSET | {"configs": {"read": False}}, "tools.0.configs.read"),
    ("anthropic", TOOLSET | {"configs": {"r": {"enabled": 0}}}, "tools.0.configs.r.enabled"),
    ("anthropic", TOOLSET | {"default_config": []}, "tools.0.default_config"),
    (
        "anthropic",
        TOOLSET | {"default_config": {"enabled": "false"}},
        "tools.0.default_config.enabled",
    ),
    ("openai_responses", HOSTED | {"filters": ["a.b"]}, "tools.0.filters"),
    (
        "openai_responses",
        HOSTED | {"filters": {"allowed_domains": "a.b"}},
        "tools.0.filters.allowed_domains",
    ),
    (
        "openai_responses",
        HOSTED | {"filters": {"allowed_domains": ["http://a.b"]}},
        "tools.0.filters.allowed_domains.0",
    ),
    ("openai_responses", HOSTED | {"search_context_size": "huge"}, "tools.0.search_context_size"),
    ("openai_responses", HOSTED | {"external_web_access": "no"}, "tools.0.external_web_access"),
    (
        "openai_responses",
        HOSTED | {"user_location": {"country": "DEU"}},
        "tools.0.user_location.country",
    ),
    ("openai_responses", MCP | {"server_label": ""}, "tools.0.server_label"),
    ("openai_responses", MCP | {"allowed_tools": "read"}, "tools.0.allowed_tools"),
    ("openai_responses", MCP | {"allowed_tools": [1]}, "tools.0.allowed_tools.0"),
    (
        "openai_responses",
        MCP | {"allowed_tools": {"tool_names": "read"}},
        "tools.0.allowed_tools.tool_names",
    ),
    (
        "openai_responses",
        MCP | {"allowed_tools": {"read_only": "yes"}},
        "tools.0.allowed_tools.read_only",
    ),
    ("openai_responses", MCP | {"require_approval": "nevr"}, "tools.0.require_approval"),
    (
        "openai_responses",
        MCP | {"require_approval": {"never": ["read"]}},
        "tools.0.require_approval.never",
    ),
    ("openai_chat", {"search_context_size": 3}, "web_search_options.search_context_size"),
    ("openai_chat", "x", "web_search_options"),
    ("openai_chat", [], "web_search_options"),
    ("gemini", {"urlContext": "x"}, "tools.0.urlContext"),
    ("gemini", {"codeExecution": 5}, "tools.0.codeExecution"),
    ("gemini", {"googleSearch": {"timeRangeFilter": "x"}}, "tools.0.googleSearch.timeRangeFilter"),
    (
        "gemini",
        {"googleSearch": {"timeRangeFilter": {"startTime": "2026-02-30T00:00:00Z"}}},
        "tools.0.googleSearch.timeRangeFilter.startTime",
    ),
    (
        "gemini",
        {"googleSearch": {"timeRangeFilter": {"endTime": 5}}},
        "tools.0.googleSearch.timeRangeFilter.endTime",
    ),
    (
        "openai_chat",
        {"filters": {"allowed_domains": "a.b"}},
        "web_search_options.filters.allowed_domains",
    ),
    (
        "openai_chat",
        {"user_location": {"type": "approximate", "approximate": {"country": "Germany"}}},
        "web_search_options.user_location.approximate.country",
    ),
    (
        "openai_chat",
        ROUTER | {"parameters": {"allowed_domains": "a.b"}},
        "tools.0.parameters.allowed_domains",
    ),
    (
        "gemini",
        {"googleSearch": {"excludeDomains": "a.b"}},
        "tools.0.googleSearch.excludeDomains",
    ),
]


@every_row(("api", "tool", "where"), WRONG)
def test_a_wrong_limit_is_an_error_that_names_the_field(api, tool, where):
    with pytest.raises(MalformedRequest) as raised:
        decode(api, tool)
    assert raised.value.problem.where == where
    assert " must be " in f" {raised.value.problem.text}" or "exclude" in raised.value.problem.text


@every_row("wrong", ["5", 0, -1, True])
def test_the_calls_of_a_response_are_limited_by_a_positive_number(wrong):
    with pytest.raises(MalformedRequest) as raised:
        decode("openai_responses", HOSTED, max_tool_calls=wrong)
    assert raised.value.problem.where == "max_tool_calls"


PLACE = {"type": "approximate", "city": "Ulm", "country": "de", "region": None, "timezone": ""}


@every_row(
    ("api", "tool"),
    [
        ("anthropic", SEARCH | {"allowed_domains": None, "max_uses": None, "user_location": None}),
        # Claude Code sends the list that it does not use as an empty one.
        ("anthropic", SEARCH | {"allowed_domains": ["a.b/c"], "blocked_domains": []}),
        ("anthropic", SEARCH | {"allowed_domains": ["*.a.b", "a.b/*/c", "bücher.de"]}),
        ("anthropic", SEARCH | {"max_uses": 1, "user_location": PLACE}),
        ("anthropic", FETCH | {"citations": {"enabled": True}, "max_content_tokens": 100}),
        ("anthropic", TOOLSET | {"default_config": None, "configs": {"r": {"enabled": False}}}),
        ("openai_responses", HOSTED | {"filters": None, "user_location": PLACE}),
        ("openai_responses", MCP | {"allowed_tools": ["a"], "require_approval": "never"}),
        ("openai_responses", MCP | {"require_approval": {"never": {"tool_names": ["a"]}}}),
        ("openai_chat", {"user_location": {"type": "approximate", "approximate": PLACE}}),
        ("openai_chat", ROUTER),
        ("gemini", {"googleSearch": {}}),
        ("gemini", {"google_search": {}}),
        ("gemini", {"googleSearch": {"excludeDomains": ["a.b"]}}),
    ],
)
def test_right_limits_are_read(api, tool):
    assert decode(api, tool).tools[0].hosted is not None


@every_row(
    ("entry", "url", "covered"),
    [
        ("a.b/*", "http://a.b/", True),
        ("a.b/*", "http://a.b/x/y", True),
        ("a.b/*/news", "http://a.b/x/news", True),
        ("a.b/*/news", "http://a.b/x/news/1", True),
        ("a.b/*/news", "http://a.b/x/newsroom", False),
        ("a.b/*/news", "http://a.b/x", False),
        ("a.b/blog*", "http://a.b/blogs/1", True),
        ("a.b/blog*", "http://a.b/x/blogs", False),
        ("a.b/(.*", "http://a.b/(x", False),
    ],
)
def test_a_wildcard_in_a_path_is_any_text(entry, url, covered):
    assert is_allowed(url, [entry], []) is covered


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
def test_a_time_begins_with_a_day_of_the_calendar(year, month, day):
    text = f"{year:04}-{month:02}-{day:02}"
    try:
        date.fromisoformat(text)
    except ValueError:
        with pytest.raises(MalformedRequest, match=r"^x: must be a time"):
            check_time(f"{text}T00:00:00Z", "x")
    else:
        check_time(f"{text}T00:00:00Z", "x")
