"""Each rule by which an upstream would refuse a request can fail."""

from tests.tables import every_row

from toolbridge.conformance import upstreams
from toolbridge.conformance.cases import APIS, WireFraming


def chat(*messages, **more):
    return {"model": "m", "messages": list(messages), **more}


USER = {"role": "user", "content": "Hi"}
# Anthropic
USES = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}
# Chat Completions
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOOL = {"role": "tool", "tool_call_id": "a", "content": "x"}
# Ollama
O_CALLS = {"role": "assistant", "content": "", "tool_calls": [{"function": {"arguments": {}}}]}
O_TOOL = {"role": "tool", "content": "x"}
# Responses
R_CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
R_OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "x"}


def content(role, *parts):
    return {"role": role, "parts": list(parts)}


G_USER = content("user", {"text": "Hi"})
G_CALL = content("model", {"functionCall": {"name": "f"}})
G_RESULT = content("user", {"functionResponse": {"name": "f"}})

LEGAL = {
    "anthropic": chat(USER, USES, RESULT, max_tokens=1, tools=[{"name": "f"}]),
    "openai_chat": chat(USER, CALLS, TOOL, tools=[{"function": {"name": "f"}}]),
    "openai_responses": {"model": "m", "input": [{"role": "user"}, R_CALL, R_OUTPUT]},
    "gemini": {"contents": [G_USER, G_CALL, G_RESULT]},
    "ollama": chat(USER, O_CALLS, O_TOOL),
}


@every_row("api", APIS)
def test_a_legal_request_is_taken(api):
    assert upstreams.load(api).refuses(LEGAL[api]) == []


def declared(schema):
    return [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]


REFUSED = [
    ("anthropic", "no max_tokens", chat(USER)),
    ("anthropic", "first message", chat({"role": "assistant", "content": "x"}, max_tokens=1)),
    ("anthropic", "without tool_result", chat(USER, USES, max_tokens=1)),
    ("anthropic", "followed by results for []", chat(USER, USES, USER, max_tokens=1)),
    ("anthropic", "followed by results for", chat(USER, RESULT, max_tokens=1)),
    ("anthropic", "user is empty", chat({"role": "user", "content": []}, max_tokens=1)),
    (
        "anthropic",
        "text block is empty",
        chat({"role": "user", "content": [{"type": "text", "text": " "}]}, max_tokens=1),
    ),
    (
        "anthropic",
        "no signature",
        chat(USER, {"role": "assistant", "content": [{"type": "thinking"}]}, max_tokens=1),
    ),
    (
        "anthropic",
        "the id 'a.b' is not allowed",
        chat(USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "a.b"}]}),
    ),
    (
        "anthropic",
        "after other content",
        chat(
            USER,
            USES,
            {"role": "user", "content": [{"type": "text", "text": "x"}, *RESULT["content"]]},
        ),
    ),
    ("anthropic", "tool name", chat(USER, max_tokens=1, tools=[{"name": "a b"}])),
    ("openai_chat", "no messages", {"model": "m"}),
    ("openai_chat", "no role is called", chat({"role": "robot", "content": "x"})),
    ("openai_chat", "user speaks before", chat(USER, CALLS, USER)),
    ("openai_chat", "never answered", chat(USER, CALLS)),
    ("openai_chat", "was not called", chat(USER, TOOL)),
    ("openai_chat", "has no content", chat(USER, CALLS, {**TOOL, "content": None})),
    (
        "openai_chat",
        "something else than text",
        chat(USER, CALLS, {**TOOL, "content": [{"type": "image_url"}]}),
    ),
    (
        "openai_chat",
        "empty or too long",
        chat(USER, {**CALLS, "tool_calls": [{**CALL, "id": "x" * 65}]}),
    ),
    (
        "openai_chat",
        "no JSON object",
        chat(USER, {**CALLS, "tool_calls": [{**CALL, "function": {"arguments": "{"}}]}),
    ),
    ("openai_chat", "user has no content", chat({"role": "user", "content": []})),
    ("openai_chat", "tool name", chat(USER, tools=[{"function": {"name": "x" * 65}}])),
    ("openai_responses", "no input", {"model": "m"}),
    ("openai_responses", "answered by outputs for []", {"model": "m", "input": [R_CALL]}),
    ("openai_responses", "calls [] are answered", {"model": "m", "input": [R_OUTPUT]}),
    (
        "openai_responses",
        "too long",
        {"input": [{**R_CALL, "call_id": ""}, {**R_OUTPUT, "call_id": ""}]},
    ),
    (
        "openai_responses",
        "holds input_text",
        {"input": [{"role": "assistant", "content": [{"type": "input_text"}]}]},
    ),
    (
        "openai_responses",
        "tool name",
        {"input": [], "tools": [{"type": "function", "name": "a b"}]},
    ),
    ("gemini", "not specified", {}),
    ("gemini", "no role is called", {"contents": [content("assistant", {"text": "x"})]}),
    ("gemini", "no parts", {"contents": [content("user")]}),
    ("gemini", "1 calls are followed by 0", {"contents": [G_USER, G_CALL, G_USER]}),
    ("gemini", "0 calls are followed by 1", {"contents": [G_USER, G_RESULT]}),
    ("gemini", "never answered", {"contents": [G_USER, G_CALL]}),
    (
        "gemini",
        "function name",
        {"contents": [G_USER], "tools": [{"functionDeclarations": [{"name": "1"}]}]},
    ),
    (
        "gemini",
        "the schema has const",
        {"contents": [G_USER], "tools": declared({"properties": {"a": {"const": 1}}})},
    ),
    ("ollama", "no model", {"messages": []}),
    ("ollama", "nobody called", chat(USER, O_TOOL)),
    ("ollama", "not answered", chat(USER, O_CALLS, USER)),
    ("ollama", "not answered", chat(USER, O_CALLS)),
    ("ollama", "no text", chat({"role": "user", "content": []})),
    ("ollama", "plain base64", chat({"role": "user", "content": "", "images": ["data:x"]})),
    ("ollama", "no object", chat(USER, {"tool_calls": [{"function": {"arguments": "{}"}}]})),
]


@every_row(("api", "why", "body"), REFUSED)
def test_an_illegal_request_is_refused(api, why, body):
    assert any(why in fault for fault in upstreams.load(api).refuses(body))


def test_a_property_that_is_called_like_a_keyword_is_none():
    body = {"contents": [G_USER], "tools": declared({"properties": {"$id": {"type": "string"}}})}
    assert upstreams.load("gemini").refuses(body) == []


@every_row(
    ("framing", "sent"),
    [
        (WireFraming(), b'event: ping\ndata: {"type":"ping"}\n\n'),
        (WireFraming(event=False), b'data: {"type":"ping"}\n\n'),
        (WireFraming(space=False, eol="\r"), b'event:ping\rdata:{"type":"ping"}\r\r'),
        (WireFraming(comments=True), b': still here\n\nevent: ping\ndata: {"type":"ping"}\n\n'),
    ],
)
def test_an_event_is_framed_as_told(framing, sent):
    assert upstreams.load("anthropic").frame('{"type":"ping"}', framing) == sent


@every_row(
    ("api", "path"),
    [
        ("anthropic", "/v1/messages"),
        ("openai_chat", "/v1/chat/completions"),
        ("openai_responses", "/v1/responses"),
        ("gemini", "/v1beta/models/m:streamGenerateContent"),
        ("ollama", "/api/chat"),
    ],
)
def test_every_api_has_its_place(api, path):
    assert upstreams.load(api).path.search(path)
    assert not upstreams.load(api).path.search("/elsewhere")


@every_row(
    ("api", "body"),
    [
        ("anthropic", {"tools": [{"name": "f"}]}),
        ("openai_chat", {"tools": [{"function": {"name": "f"}}]}),
        ("openai_responses", {"tools": [{"name": "f"}]}),
        ("gemini", {"tools": [{"functionDeclarations": [{"name": "f"}]}]}),
        ("ollama", {"tools": [{"function": {"name": "f"}}]}),
    ],
)
def test_the_tools_on_offer_are_found(api, body):
    assert upstreams.load(api).tools(body) == ["f"]


def test_gemini_takes_both_spellings():
    call = {"function_call": {"name": "f", "args": {"a_b": 1}}}
    body = {"contents": [content("model", call)], "generation_config": {"max_output_tokens": 1}}
    assert upstreams.load("gemini").normal(body) == {
        "contents": [content("model", {"functionCall": {"name": "f", "args": {"a_b": 1}}})],
        "generationConfig": {"maxOutputTokens": 1},
    }
