"""Requests in Anthropic's words, written. Read back by parsing, never by looking for a piece."""

import pytest
from msgspec.structs import replace
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.codecs.anthropic import CODEC
from toolbridge.core.codec import Target
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Opaque,
    Origin,
    OutputFormat,
    Reference,
    Request,
    Result,
    Sampling,
    Text,
    Think,
    Thinking,
    Tool,
    ToolChoice,
    Turn,
)

TOOL = Tool("f", "d", {"type": "object"})


def encode(target=None, **fields):
    request = Request(**({"model": "m", "max_tokens": 4096, "origin": "anthropic"} | fields))
    return CODEC.encode_request(request, target or Target())


def encode_parts(*parts, role="user"):
    sent = encode(turns=(Turn(role, parts),))
    messages = sent.body["messages"]
    return messages[0]["content"] if messages else [], [loss.what for loss in sent.losses]


def lost(sent):
    return [loss.what for loss in sent.losses]


def test_the_address_and_the_version_are_anthropics():
    sent = encode()
    assert sent.path == "/v1/messages"
    assert sent.headers == {"anthropic-version": "2023-06-01"}
    assert CODEC.authorize("k") == {"x-api-key": "k"}


def test_the_targets_name_replaces_the_clients():
    assert encode().body["model"] == "m"
    assert encode(Target(model="claude-opus-5")).body["model"] == "claude-opus-5"


@pytest.mark.req("ZG-25")
@every_row(
    ("asked", "most", "expected"),
    [
        (None, 0, 32000),
        (None, 8192, 2730),
        (None, 128_000, 32000),
        (500, 0, 500),
        (500, 8192, 500),
    ],
)
def test_max_tokens_is_the_clients_or_a_third(asked, most, expected):
    sent = encode(Target(max_output=most), max_tokens=asked)
    assert (sent.body["max_tokens"], sent.losses) == (expected, ())


def test_max_tokens_is_lowered_to_what_the_model_writes():
    sent = encode(Target(max_output=100), max_tokens=500)
    assert (sent.body["max_tokens"], lost(sent)) == (100, ["max_tokens"])


@pytest.mark.req("PX-01", "PX-02", "PX-03", "CB-02")
@every_row(
    ("part", "block"),
    [
        (Text("a"), {"type": "text", "text": "a"}),
        (
            Text("a", cache="5m"),
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        ),
        (
            Text("a", cache="1h"),
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        ),
        (
            Text("a", citations=({"type": "char_location"},)),
            {"type": "text", "text": "a", "citations": [{"type": "char_location"}]},
        ),
        (
            Thinking("Hm", (Opaque("anthropic/work", "signature", "s"),)),
            {"type": "thinking", "thinking": "Hm", "signature": "s"},
        ),
        (
            Thinking("", (Opaque("anthropic", "redacted", "d"),)),
            {"type": "redacted_thinking", "data": "d"},
        ),
        (
            Image(data="eA==", media_type="image/png"),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "eA=="},
            },
        ),
        (Image(url="u"), {"type": "image", "source": {"type": "url", "url": "u"}}),
        (Image(file_id="f"), {"type": "image", "source": {"type": "file", "file_id": "f"}}),
        (
            Document(text="x", title="t", context="c"),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "x"},
                "title": "t",
                "context": "c",
            },
        ),
        (Call("a", "f", {"x": 1}), {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}),
        (
            Call("a", "f", raw="{x"),
            {"type": "tool_use", "id": "a", "name": "f", "input": {"raw": "{x"}},
        ),
        (Result("a"), {"type": "tool_result", "tool_use_id": "a"}),
        (
            Result("a", (Text("x"), Reference("f")), is_error=True, name="g"),
            {
                "type": "tool_result",
                "tool_use_id": "a",
                "content": [
                    {"type": "text", "text": "x"},
                    {"type": "tool_reference", "tool_name": "f"},
                ],
                "is_error": True,
            },
        ),
        (Foreign("anthropic", "new", {"type": "new", "x": 1}), {"type": "new", "x": 1}),
    ],
)
def test_every_part_has_its_block(part, block):
    assert encode_parts(part) == ([block], [])


@every_row(
    "part",
    [
        Thinking("Hm"),
        Thinking("Hm", (Opaque("gemini/google", "thought_signature", "s"),)),
        Thinking("Hm", (Opaque("anthropic-like", "signature", "s"),)),
        Audio("eA==", "audio/wav"),
        Foreign("openai_responses", "computer_call", {}),
    ],
)
def test_what_anthropic_cannot_take_is_said_to_be_lost(part):
    content, losses = encode_parts(part, Text("x"))
    assert (content, losses) == ([{"type": "text", "text": "x"}], ["turns.0.content.0"])


def test_a_message_whose_parts_are_all_lost_is_not_sent():
    assert encode_parts(Thinking("Hm"), role="assistant") == ([], ["turns.0.content.0"])


def test_losses_inside_a_result_have_their_path():
    result = Result("a", (Text("x"), Audio("eA==")))
    content, losses = encode_parts(Text("y"), result)
    assert losses == ["turns.0.content.1.content.1"]
    assert content[0]["content"] == [{"type": "text", "text": "x"}]


def test_results_are_sent_first_in_their_order():
    content, _ = encode_parts(Text("x"), Result("b"), Text("y"), Result("a"))
    assert [block.get("tool_use_id") or block["text"] for block in content] == ["b", "a", "x", "y"]


def test_the_detail_of_an_image_is_lost():
    content, losses = encode_parts(Image(url="u", detail="high"))
    assert (len(content), losses) == (1, ["turns.0.content.0.detail"])


def test_a_token_from_elsewhere_leaves_the_call():
    call = Call("a", "f", opaque=(Opaque("gemini", "thought_signature", "s"),))
    assert encode_parts(call)[0] == [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]


@every_row(
    ("tool", "offer"),
    [
        (TOOL, {"name": "f", "description": "d", "input_schema": {"type": "object"}}),
        (Tool("f"), {"name": "f", "input_schema": {"type": "object", "properties": {}}}),
        (
            Tool("f", schema={"type": "object"}, strict=False, deferred=True, cache="5m"),
            {
                "name": "f",
                "input_schema": {"type": "object"},
                "strict": False,
                "defer_loading": True,
                "cache_control": {"type": "ephemeral"},
            },
        ),
        (
            Tool("f", freeform=True),
            {
                "name": "f",
                "input_schema": {
                    "type": "object",
                    "properties": {"input": {"type": "string"}},
                    "required": ["input"],
                },
            },
        ),
        (
            Tool("w", origin="anthropic", hosted={"type": "web_search_20250305", "name": "w"}),
            {"type": "web_search_20250305", "name": "w"},
        ),
    ],
)
def test_every_tool_has_its_offer(tool, offer):
    sent = encode(tools=(tool,))
    assert (sent.body["tools"], sent.losses) == ([offer], ())


def test_tools_that_others_run_are_lost():
    sent = encode(tools=(Tool("w", origin="openai_responses", hosted={"type": "web_search"}), TOOL))
    assert ([tool["name"] for tool in sent.body["tools"]], lost(sent)) == (["f"], ["tools.0"])


def test_a_deferred_tool_brings_its_beta():
    sent = encode(tools=(Tool("f", deferred=True),))
    assert sent.headers["anthropic-beta"] == "advanced-tool-use-2025-11-20"


@every_row(
    ("choice", "expected"),
    [
        (ToolChoice(), None),
        (ToolChoice("required"), {"type": "any"}),
        (ToolChoice("required", ("f",)), {"type": "tool", "name": "f"}),
        (ToolChoice("named", ("f",)), {"type": "tool", "name": "f"}),
        (ToolChoice("none"), {"type": "none"}),
        (ToolChoice("none", parallel=False), {"type": "none"}),
        (ToolChoice(parallel=False), {"type": "auto", "disable_parallel_tool_use": True}),
        (
            ToolChoice("required", parallel=True),
            {"type": "any", "disable_parallel_tool_use": False},
        ),
    ],
)
def test_every_choice_is_written(choice, expected):
    sent = encode(tools=(TOOL,), tool_choice=choice)
    assert (sent.body.get("tool_choice"), sent.losses) == (expected, ())


def test_a_choice_among_some_tools_is_lost():
    choice = ToolChoice("auto", ("f", "g"))
    sent = encode(tools=(TOOL,), tool_choice=choice)
    assert ("tool_choice" in sent.body, lost(sent)) == (False, ["tool_choice.names"])


def test_a_choice_without_tools_is_lost():
    assert lost(encode(tool_choice=ToolChoice("required"))) == ["tool_choice"]


def test_a_model_that_cannot_be_forced_is_asked():
    target = Target(quirks={"forced_tools": False})
    sent = encode(target, tools=(TOOL,), tool_choice=ToolChoice("named", ("f",)))
    assert ("tool_choice" in sent.body, lost(sent)) == (False, ["tool_choice.mode"])


def test_sampling_that_anthropic_does_not_know_is_lost():
    every = Sampling(0.5, 0.9, 4, 0.1, 7, 0.2, 0.3, 1.1, 2)
    sent = encode(sampling=every)
    taken = {name: sent.body[name] for name in ("temperature", "top_p", "top_k")}
    assert taken == {"temperature": 0.5, "top_p": 0.9, "top_k": 4}
    assert lost(sent) == [
        "sampling.min_p",
        "sampling.seed",
        "sampling.frequency_penalty",
        "sampling.presence_penalty",
        "sampling.repeat_penalty",
        "sampling.logprobs",
    ]


def test_a_temperature_above_one_is_lowered():
    sent = encode(sampling=Sampling(temperature=1.7))
    assert (sent.body["temperature"], lost(sent)) == (1, ["sampling.temperature"])


def test_a_model_without_sampling_gets_none():
    sent = encode(Target(quirks={"sampling": False}), sampling=Sampling(temperature=1.0))
    assert ("temperature" in sent.body, lost(sent)) == (False, ["sampling.temperature"])


def test_a_stop_of_white_space_is_left_to_the_reader():
    sent = encode(stop=("END", " \n"))
    assert (sent.body["stop_sequences"], sent.stops, lost(sent)) == (["END"], (" \n",), [])
    assert "stop_sequences" not in encode(stop=(" ",)).body


@every_row(
    ("think", "thinking", "losses"),
    [
        (Think(), None, []),
        (Think(effort="high"), None, []),
        (Think("on", 2000), {"type": "enabled", "budget_tokens": 2000}, []),
        (Think("on", 9000), {"type": "enabled", "budget_tokens": 4095}, ["think.budget"]),
        (Think("on", 1), {"type": "enabled", "budget_tokens": 1024}, ["think.budget"]),
        (Think("on"), {"type": "adaptive"}, ["think.mode"]),
        (Think("auto", show="omitted"), {"type": "adaptive", "display": "omitted"}, []),
        (Think("auto", show="full"), {"type": "adaptive", "display": "summarized"}, ["think.show"]),
        (Think("auto", 2000), {"type": "adaptive"}, ["think.budget"]),
        (Think("off"), {"type": "disabled"}, []),
        (Think("off", show="full"), {"type": "disabled"}, ["think.show"]),
        (Think(effort="none"), {"type": "disabled"}, []),
        (Think("between_tools"), {"type": "between_tools"}, []),
    ],
)
def test_every_way_of_thinking_is_written(think, thinking, losses):
    sent = encode(think=think)
    assert (sent.body.get("thinking"), lost(sent)) == (thinking, losses)


def test_thinking_that_the_answer_cannot_hold_is_lost():
    sent = encode(think=Think("on", 2000), max_tokens=1024)
    assert ("thinking" in sent.body, lost(sent)) == (False, ["think"])


SEALED = Thinking("hm", (Opaque("anthropic", "signature", "s"),))


@pytest.mark.parametrize(
    ("origin", "before", "after", "thinks"),
    [
        ("openai_chat", (), (Result("c1", (Text("r"),)),), False),
        ("openai_chat", (Text("Let me see."),), (Result("c1", (Text("r"),)),), False),
        ("openai_chat", (Thinking("no signature"),), (Result("c1", (Text("r"),)),), False),
        ("openai_chat", (SEALED,), (Result("c1", (Text("r"),)),), True),
        ("openai_chat", (SEALED, Text("Well.")), (Result("c1", (Text("r"),)), Text("and")), True),
        ("anthropic", (), (Result("c1", (Text("r"),)),), True),
    ],
)
def test_a_budget_needs_the_thought_before_the_last_call(origin, before, after, thinks):
    call = Turn("assistant", (*before, Call("c1", "f", {})))
    turns = (Turn("user", (Text("q"),)), call, Turn("user", after))
    sent = encode(turns=turns, tools=(TOOL,), think=Think("on", 2000), origin=origin)
    assert ("thinking" in sent.body) is thinks
    assert ("think" in lost(sent)) is not thinks
    over = (*turns, Turn("assistant", (Text("Done."),)), Turn("user", (Text("next"),)))
    later = encode(turns=over, tools=(TOOL,), think=Think("on", 2000), origin=origin)
    assert later.body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    adaptive = encode(turns=turns, tools=(TOOL,), think=Think("auto"), origin=origin)
    assert adaptive.body["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    ("effort", "expected", "losses"),
    [("high", "high", []), ("minimal", "low", ["think.effort"]), ("max", "max", [])],
)
def test_effort_is_written(effort, expected, losses):
    sent = encode(think=Think("auto", effort=effort))
    assert (sent.body["output_config"], lost(sent)) == ({"effort": expected}, losses)


def test_an_answer_by_schema_is_asked_for():
    sent = encode(output=OutputFormat({"type": "object"}))
    format = {"type": "json_schema", "schema": {"type": "object"}}
    assert (sent.body["output_config"], lost(sent)) == ({"format": format}, [])
    assert lost(encode(output=OutputFormat({}, name="n", strict=True))) == [
        "output.name",
        "output.strict",
    ]


def test_json_without_a_schema_is_lost():
    sent = encode(output=OutputFormat())
    assert ("output_config" in sent.body, lost(sent)) == (False, ["output"])


def test_what_only_anthropic_understands_comes_back():
    extra = {
        "context_management": {"edits": []},
        "metadata": {"team": "blue"},
    }
    written = {"name": "old", "input_schema": {}, "eager_input_streaming": True}
    source = Origin("anthropic", "tools.0", written, ("eager_input_streaming",))
    sent = encode(extra=extra, user="u", tools=(replace(TOOL, source=source),))
    assert sent.body["context_management"] == {"edits": []}
    assert sent.body["metadata"] == {"user_id": "u", "team": "blue"}
    assert sent.body["tools"][0]["eager_input_streaming"] is True
    assert sent.headers["anthropic-beta"] == "context-management-2025-06-27"
    assert sent.losses == ()


def test_what_only_another_api_understands_is_lost():
    sent = encode(origin="openai_chat", extra={"logit_bias": {"1": 2}})
    assert ("logit_bias" in sent.body, lost(sent)) == (False, ["logit_bias"])


def test_the_request_is_not_changed_by_being_written():
    hosted = {"type": "web_search_20250305", "name": "f"}
    request = Request(
        "m",
        tools=(Tool("f", origin="anthropic", hosted=hosted),),
        origin="anthropic",
        extra={"tools": {"f": {"x": 1}}},
    )
    before = dump_bytes(request)
    CODEC.encode_request(request, Target())
    assert dump_bytes(request) == before


def test_fields_of_the_configuration_go_in_as_they_are():
    assert encode(Target(options={"service_tier": "standard_only"})).body["service_tier"] == (
        "standard_only"
    )


@pytest.mark.parametrize(
    "block",
    [
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "x"},
            "citations": {"enabled": True},
        },
        {
            "type": "tool_use", "id": "a", "name": "f", "input": {},
            "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"},
        },
    ],
    ids=lambda block: block["type"],
)  # fmt: skip
def test_what_only_anthropic_says_of_a_block_goes_back(block):
    messages = [{"role": "user", "content": [block]}]
    body = {"model": "m", "max_tokens": 9, "messages": messages}
    request = CODEC.decode_request(dump_bytes(body))
    assert CODEC.encode_request(request, Target()).body["messages"] == messages


def test_the_caller_of_an_answers_call_is_kept():
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}, "caller": caller}
    reply = {"type": "message", "id": "msg_1", "content": [call], "stop_reason": "tool_use"}
    decoder = CODEC.stream_decoder(Ids("x"))
    message = collect(decoder.feed(dump_bytes(reply)) + decoder.close())
    sent = encode(turns=(Turn("assistant", message.content),))
    assert sent.body["messages"][0]["content"] == [call]


@every_row("name", ["openai_chat", "openai_responses", "gemini", "ollama"])
def test_no_other_api_cites_a_document(name):
    cited = Document(text="x", media_type="text/plain", cite=True)
    request = Request("m", (Turn("user", (cited,)),))
    (loss,) = codecs.load(name).encode_request(request, Target()).losses
    assert loss.what == "turns.0.content.0.cite"


@pytest.mark.parametrize("own", [False, True])
def test_a_schema_that_is_a_union_is_merged_with_a_loss(own):
    schema = {"oneOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {}]}
    if own:
        tool = {"name": "f", "input_schema": {"type": "object", **schema}}
        body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "q"}]}
        request = CODEC.decode_request(dump_bytes(body | {"tools": [tool]}))
    else:
        request = Request("m", (Turn("user", (Text("q"),)),), tools=(Tool("f", schema=schema),))
    sent = CODEC.encode_request(request, Target(model="m"))
    found = sent.body["tools"][0]["input_schema"]
    assert (found["type"], found["properties"]) == ("object", {"a": {"type": "string"}})
    assert "oneOf" not in found
    assert [loss.what for loss in sent.losses] == ["tools.0.schema"]
