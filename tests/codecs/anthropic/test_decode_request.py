"""Requests in Anthropic's words, read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.codecs.anthropic import CODEC
from toolbridge.codecs.anthropic.signatures import own_signature
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.messages import (
    Call,
    Document,
    Foreign,
    Image,
    Opaque,
    OutputFormat,
    Reference,
    Result,
    Text,
    Think,
    Thinking,
    Tool,
    ToolChoice,
)


def decode(**fields):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    return CODEC.decode_request(json.dumps(body | fields).encode())


def decode_part(block, role="user"):
    (part,) = decode(messages=[{"role": role, "content": [block]}]).turns[0].content
    return part


def fault(body, **options):
    with pytest.raises(MalformedRequest) as raised:
        CODEC.decode_request(json.dumps(body).encode(), **options)
    return raised.value.problem.where


@pytest.mark.req("CB-01", "CB-02", "PX-04")
def test_a_string_is_one_text_block():
    told = decode(messages=[{"role": "user", "content": "Hi"}])
    shown = decode(messages=[{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])
    assert told == shown


@pytest.mark.req("CB-01")
def test_every_optional_field_is_read():
    request = decode(
        system="Be brief.", temperature=0.5, top_p=0.9, top_k=3, stop_sequences=["END"],
        stream=True, metadata={"user_id": "u1"},
        tools=[{"name": "f", "input_schema": {"type": "object"}}],
    )  # fmt: skip
    assert [part.text for part in request.system] == ["Be brief."]
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 3)
    assert (request.stop, request.stream, request.user) == (("END",), True, "u1")
    assert [tool.name for tool in request.tools] == ["f"]
    assert (request.model, request.max_tokens, len(request.turns)) == ("m", 9, 1)


@pytest.mark.req("CB-01")
@pytest.mark.parametrize("field", ["model", "max_tokens", "messages"])
def test_a_required_field_is_missed_by_its_name(field):
    body = {"model": "m", "max_tokens": 9, "messages": HI}
    assert fault({name: value for name, value in body.items() if name != field}) == field


@pytest.mark.req("CB-01")
def test_a_minimal_request_does_not_stream():
    assert decode().stream is False
    assert decode(stream=True).stream is True
    assert decode(stream=None).stream is False


def test_what_the_path_says_wins():
    body = b'{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1,"stream":false}'
    request = CODEC.decode_request(body, model="from-path", stream=True)
    assert (request.model, request.stream) == ("from-path", True)


@pytest.mark.req("PX-01", "PX-02", "PX-03", "PX-04", "CB-02", "CB-03", "CL-02")
@every_row(
    ("block", "part"),
    [
        ({"type": "text", "text": ""}, Text("")),
        (
            {"type": "text", "text": "a", "citations": [{"type": "char_location"}]},
            Text("a", citations=({"type": "char_location"},)),
        ),
        ({"type": "text", "text": "a", "citations": None}, Text("a")),
        ({"type": "text", "text": "a", "citations": {"enabled": True}}, Text("a")),
        ({"type": "text", "text": "a", "cache_control": None}, Text("a")),
        (
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            Text("a", cache="5m"),
        ),
        (
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            Text("a", cache="1h"),
        ),
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "eA=="},
            },
            Image(data="eA==", media_type="image/png"),
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://a/b"}},
            Image(url="https://a/b"),
        ),
        (
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            Image(file_id="file_1"),
        ),
        (
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "x"},
            },
            Document(text="x", media_type="text/plain"),
        ),
        (
            {
                "type": "document",
                "source": {"type": "url", "url": "u"},
                "title": "t",
                "context": "c",
            },
            Document(url="u", title="t", context="c"),
        ),
        ({"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}, Call("a", "f", {"x": 1})),
        (
            {"type": "tool_use", "id": "a", "name": "f", "input": {}, "caller": {"type": "direct"}},
            Call("a", "f"),
        ),
        (
            {"type": "tool_use", "id": "a", "name": "f", "input": {}, "caller": {"type": "code"}},
            Call("a", "f", opaque=(Opaque("anthropic", "item", '{"caller":{"type":"code"}}'),)),
        ),
        ({"type": "tool_reference", "tool_name": "f"}, Reference("f")),
        (
            {"type": "thinking", "thinking": "Hm", "signature": "s"},
            Thinking("Hm", (Opaque("anthropic", "signature", "s"),)),
        ),
        (
            {"type": "thinking", "thinking": "", "signature": "s"},
            Thinking("", (Opaque("anthropic", "signature", "s"),)),
        ),
        ({"type": "thinking", "thinking": "Hm", "signature": ""}, Thinking("Hm")),
        ({"type": "thinking", "thinking": "Hm", "signature": None}, Thinking("Hm")),
        ({"type": "thinking", "thinking": "Hm"}, Thinking("Hm")),
        ({"type": "thinking", "thinking": "Hm", "signature": own_signature("Hm")}, Thinking("Hm")),
        (
            {"type": "redacted_thinking", "data": "d"},
            Thinking("", (Opaque("anthropic", "redacted", "d"),)),
        ),
    ],
)
def test_every_block_is_read(block, part):
    assert decode_part(block) == part


@pytest.mark.req("CL-02", "PX-04")
@every_row(
    "block",
    [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "brand_new", "input": {"q": 1}},
        {"type": "brand_new_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "search_result", "source": "s", "title": "t", "content": []},
        {"type": "compaction", "content": None},
        {"type": "image", "source": {"type": "hologram", "depth": 3}},
        {"type": "document", "source": {"type": "content", "content": "One."}},
    ],
)
def test_a_block_that_only_anthropic_understands_is_kept_whole(block):
    assert decode_part(block) == Foreign("anthropic", block["type"], block)
    result = {"type": "tool_result", "tool_use_id": "a", "content": [block]}
    assert decode_part(result).content == (Foreign("anthropic", block["type"], block),)


def test_a_call_inside_a_result_is_kept_whole():
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [call]}
    assert decode_part(result).content == (Foreign("anthropic", "tool_use", call),)


@pytest.mark.req("PX-02")
@every_row(
    ("fields", "expected"),
    [
        ({}, Result("a")),
        ({"content": None}, Result("a")),
        ({"content": ""}, Result("a")),
        ({"content": []}, Result("a")),
        ({"content": "Sunny."}, Result("a", (Text("Sunny."),))),
        ({"content": [{"type": "text", "text": "Sunny."}]}, Result("a", (Text("Sunny."),))),
        ({"content": "No.", "is_error": True}, Result("a", (Text("No."),), is_error=True)),
        ({"content": "No.", "is_error": None}, Result("a", (Text("No."),))),
        (
            {"content": "No.", "cache_control": {"type": "ephemeral"}},
            Result("a", (Text("No."),), cache="5m"),
        ),
        (
            {"content": [{"type": "tool_reference", "tool_name": "f"}]},
            Result("a", (Reference("f"),)),
        ),
    ],
)
def test_every_form_of_a_result_is_read(fields, expected):
    assert decode_part({"type": "tool_result", "tool_use_id": "a"} | fields) == expected


def test_results_stand_in_front_and_keep_their_order():
    blocks = [
        {"type": "text", "text": "One."},
        {"type": "tool_result", "tool_use_id": "b"},
        {"type": "text", "text": "Two."},
        {"type": "tool_result", "tool_use_id": "a"},
    ]
    content = decode(messages=[{"role": "user", "content": blocks}]).turns[0].content
    assert content == (Result("b"), Result("a"), Text("One."), Text("Two."))


@pytest.mark.req("CL-02")
def test_turns_of_any_order_are_kept():
    roles = ["assistant", "user", "user", "system", "user", "assistant"]
    request = decode(messages=[{"role": role, "content": role} for role in roles])
    assert [turn.role for turn in request.turns] == roles


@pytest.mark.parametrize("content", [None, [], ""])
def test_a_message_without_content_is_empty(content):
    assert decode(messages=[{"role": "assistant", "content": content}]).turns[0].content == ()


@every_row(
    ("system", "expected"),
    [
        (None, ()),
        ("", ()),
        ("Be brief.", (Text("Be brief."),)),
        (
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {}}],
            (Text("a"), Text("b", cache="5m")),
        ),
    ],
)
def test_every_form_of_a_system_prompt_is_read(system, expected):
    assert decode(system=system).system == expected


def test_a_block_of_a_system_prompt_that_came_before_has_the_path_of_now():
    block = {"type": "text", "text": "Rules.", "colour": "red"}
    decode(system=[block])
    found = decode(system=[{"type": "text", "text": "Be brief."}, block, block]).system
    assert [part.text for part in found] == ["Be brief.", "Rules.", "Rules."]
    assert [part.source.path for part in found] == ["system.0", "system.1", "system.2"]
    assert [part.source.unknown for part in found] == [(), ("colour",), ("colour",)]


def test_objects_that_are_null_are_absent():
    absent = dict.fromkeys(
        ("thinking", "output_config", "output_format", "metadata", "tool_choice")
    )
    for name in absent:
        assert decode(**{name: None}) == decode()
    assert decode(**absent) == decode()


@pytest.mark.req("PX-05", "CL-02")
@every_row(
    ("fields", "expected"),
    [
        ({}, Tool("f", schema={"type": "object"})),
        ({"type": "custom"}, Tool("f", schema={"type": "object"})),
        ({"type": None, "description": None}, Tool("f", schema={"type": "object"})),
        ({"description": "d"}, Tool("f", "d", {"type": "object"})),
        ({"strict": True}, Tool("f", schema={"type": "object"}, strict=True)),
        ({"defer_loading": True}, Tool("f", schema={"type": "object"}, deferred=True)),
        ({"cache_control": {"ttl": "1h"}}, Tool("f", schema={"type": "object"}, cache="1h")),
    ],
)
def test_every_field_of_a_tool_is_read(fields, expected):
    assert decode(tools=[{"name": "f", "input_schema": {"type": "object"}} | fields]).tools == (
        expected,
    )


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ({"type": "computer_toolset_20260801", "configs": {}}, "computer_toolset_20260801"),
        ({"type": "brand_new", "name": "x"}, "x"),
    ],
)
def test_a_tool_without_a_schema_is_run_by_anthropic(tool, name):
    assert decode(tools=[tool]).tools == (Tool(name, origin="anthropic", hosted=tool),)


def test_a_tool_says_which_of_its_fields_we_do_not_know():
    tools = [
        {"name": "f", "input_schema": {}, "eager_input_streaming": True},
        {"name": "g", "input_schema": {}},
        {"name": "h", "input_schema": {}, "input_examples": [{"x": 1}]},
    ]
    found = [(tool.source.path, tool.source.unknown) for tool in decode(tools=tools).tools]
    assert found == [
        ("tools.0", ("eager_input_streaming",)),
        ("tools.1", ()),
        ("tools.2", ("input_examples",)),
    ]


@every_row(
    ("choice", "expected"),
    [
        (None, ToolChoice()),
        ({"type": "auto"}, ToolChoice()),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "tool", "name": "f"}, ToolChoice("named", ("f",))),
        ({"type": "none"}, ToolChoice("none")),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice(parallel=False)),
        (
            {"type": "any", "disable_parallel_tool_use": False},
            ToolChoice("required", parallel=True),
        ),
    ],
)
def test_every_choice_is_read(choice, expected):
    assert decode(tool_choice=choice).tool_choice == expected


@pytest.mark.req("PX-06", "CL-02")
@every_row(
    ("thinking", "expected"),
    [
        (None, Think()),
        ({"type": "enabled", "budget_tokens": 99999}, Think("on", 99999)),
        ({"type": "enabled"}, Think("on")),
        ({"type": "adaptive", "display": "omitted"}, Think("auto", show="omitted")),
        ({"type": "adaptive", "display": "summarized"}, Think("auto", show="summarized")),
        ({"type": "adaptive", "display": "updates"}, Think("auto", show="updates")),
        ({"type": "disabled"}, Think("off")),
        ({"type": "between_tools"}, Think("between_tools")),
    ],
)
def test_every_way_of_thinking_is_read(thinking, expected):
    assert decode(thinking=thinking).think == expected


@every_row("effort", ["low", "medium", "high", "xhigh", "max"])
def test_effort_is_read(effort):
    assert decode(output_config={"effort": effort}).think == Think(effort=effort)


def test_a_schema_for_the_answer_is_read_under_both_names():
    format = {"type": "json_schema", "schema": {"type": "object"}}
    expected = OutputFormat(schema={"type": "object"})
    assert decode(output_config={"format": format}).output == expected
    assert decode(output_format=format).output == expected


@pytest.mark.req("CL-02")
@every_row(
    "fields",
    [
        {"context_management": {"edits": []}},
        {"container": None},
        {"service_tier": "auto"},
        {"cache_control": {"type": "ephemeral"}},
        {"brand_new": [1, {"x": None}]},
        {"thinking": {"type": "brand_new", "depth": 3}},
        {"output_config": {"effort": "heroic"}},
        {"output_config": {"task_budget": {"type": "tokens", "total": 9}}},
        {"metadata": {"team": "blue"}},
    ],
)
def test_what_we_do_not_know_is_kept_by_its_own_name(fields):
    assert decode(**fields).extra == fields


def test_what_we_do_not_know_of_thinking_is_kept_beside_the_rest():
    thinking = {"type": "adaptive", "display": "opera", "block_binding": {"x": 1}}
    request = decode(thinking=thinking)
    assert request.think == Think("auto")
    assert request.extra == {"thinking": {"display": "opera", "block_binding": {"x": 1}}}


def test_sampling_and_the_rest_are_read():
    request = decode(
        temperature=1, top_p=0.5, top_k=3, stop_sequences=["a"], metadata={"user_id": "u"}
    )
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (1.0, 0.5, 3)
    assert (request.stop, request.user, request.max_tokens) == (("a",), "u", 9)
    assert (request.origin, request.session) == ("anthropic", "")


def test_a_user_that_is_null_is_nobody():
    assert decode(metadata={"user_id": None}).user == ""
    assert decode(metadata=None).user == ""


HI = [{"role": "user", "content": "Hi"}]


def message(*blocks):
    return {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": list(blocks)}]}


@pytest.mark.req("CB-21")
@every_row(
    ("body", "where"),
    [
        ({"max_tokens": 1, "messages": HI}, "model"),
        ({"model": "", "max_tokens": 1, "messages": HI}, "model"),
        ({"model": 7, "max_tokens": 1, "messages": HI}, "model"),
        ({"model": "m", "max_tokens": 1}, "messages"),
        ({"model": "m", "max_tokens": 1, "messages": []}, "messages"),
        ({"model": "m", "max_tokens": 1, "messages": {}}, "messages"),
        ({"model": "m", "max_tokens": 1, "messages": "Hi"}, "messages"),
        ({"model": "m", "messages": HI}, "max_tokens"),
        ({"model": "m", "max_tokens": 0, "messages": HI}, "max_tokens"),
        ({"model": "m", "max_tokens": -1, "messages": HI}, "max_tokens"),
        ({"model": "m", "max_tokens": "9", "messages": HI}, "max_tokens"),
        ({"model": "m", "max_tokens": 1, "messages": ["Hi"]}, "messages.0"),
        ({"model": "m", "max_tokens": 1, "messages": [{"content": "Hi"}]}, "messages.0.role"),
        ({"model": "m", "max_tokens": 1, "messages": [{"role": "user"}]}, "messages.0.content"),
        (
            {"model": "m", "max_tokens": 1, "messages": [*HI, {"role": "tool", "content": ""}]},
            "messages.1.role",
        ),
        (
            {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": 7}]},
            "messages.0.content",
        ),
        (message({"text": "Hi"}), "messages.0.content.0.type"),
        (message("Hi"), "messages.0.content.0"),
        (message({"type": "text", "text": "a"}, {"type": "text"}), "messages.0.content.1.text"),
        (message({"type": "tool_use", "id": "a", "input": {}}), "messages.0.content.0.name"),
        (
            message({"type": "tool_use", "id": "a", "name": "f", "input": "{}"}),
            "messages.0.content.0.input",
        ),
        (message({"type": "tool_result"}), "messages.0.content.0.tool_use_id"),
        (message({"type": "image"}), "messages.0.content.0.source"),
        ({"model": "m", "max_tokens": 1, "messages": HI, "system": 7}, "system"),
        ({"model": "m", "max_tokens": 1, "messages": HI, "tools": [{}]}, "tools.0.name"),
        (
            {"model": "m", "max_tokens": 1, "messages": HI, "tools": [{"name": "f"}]},
            "tools.0.input_schema",
        ),
        (
            {"model": "m", "max_tokens": 1, "messages": HI, "tool_choice": {"type": "tool"}},
            "tool_choice.name",
        ),
        (
            {"model": "m", "max_tokens": 1, "messages": HI, "thinking": {"budget_tokens": 1}},
            "thinking.type",
        ),
        (
            {"model": "m", "max_tokens": 1, "messages": HI, "output_config": {"format": {}}},
            "output_config.format.type",
        ),
    ],
)
def test_the_path_of_a_fault_is_told(body, where):
    assert fault(body) == where


@pytest.mark.req("PX-31")
def test_a_request_that_is_only_counted_needs_no_limit():
    assert CODEC.decode_request(json.dumps({"model": "m", "messages": HI}).encode(), counting=True)
    assert fault({"model": "m"}, counting=True) == "messages"


@every_row("body", [b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000])
def test_what_is_no_request_is_refused(body):
    with pytest.raises(MalformedRequest):
        CODEC.decode_request(body)


def test_a_field_that_nests_too_deeply_is_refused():
    deep = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"new":%b}'
    with pytest.raises(MalformedRequest):
        CODEC.decode_request(deep % (b"[" * 100_000 + b"]" * 100_000))


@given(st.text())
def test_our_own_signature_is_recognised(thought):
    signature = own_signature(thought.encode("utf-8", "replace").decode())
    block = {"type": "thinking", "thinking": "x", "signature": signature}
    assert decode_part(block, "assistant") == Thinking("x")
