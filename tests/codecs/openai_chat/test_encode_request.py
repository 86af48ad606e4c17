import pytest
from tests.tables import every_row

from toolbridge import providers
from toolbridge.codecs.openai_chat.decode_request import decode_request
from toolbridge.codecs.openai_chat.encode_request import encode_request
from toolbridge.core.codec import Target
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import (
    Origin,
    OutputFormat,
    Reference,
    Request,
    Result,
    Sampling,
    Text,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.core.source import sourced

SCHEMA = {"type": "object", "properties": {"p": {"type": "string"}}}
CLOSED = {**SCHEMA, "required": ["p"], "additionalProperties": False}
HELLO = (Turn("user", (Text("Hi"),)),)
F, G = Tool("f", schema=SCHEMA), Tool("g", schema=SCHEMA)


def encode(quirks=None, options=None, **fields):
    request = Request(model="m", turns=fields.pop("turns", HELLO), **fields)
    return encode_request(request, Target("m2", quirks=quirks or {}, options=options or {}))


def body(quirks=None, **fields):
    return encode(quirks, **fields).body


def lost(outgoing):
    return [loss.what for loss in outgoing.losses]


def test_the_least_request_is_plain():
    outgoing = encode()
    assert outgoing.path == "/chat/completions"
    assert outgoing.body == {
        "model": "m2",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
    }
    assert outgoing.losses == ()


def test_an_unknown_quirk_is_an_error_of_the_configuration():
    with pytest.raises(ConfigError):
        encode({"wibble": 1})


# ── tools ──


def test_a_tool_is_a_function():
    tool = Tool("f", "d", SCHEMA, strict=True)
    (offered,) = body(tools=(tool,), origin="openai_chat")["tools"]
    assert offered == {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True},
    }


def test_a_tool_without_a_schema_takes_an_object():
    (offered,) = body(tools=(Tool("f"),))["tools"]
    assert offered["function"]["parameters"] == {"type": "object", "properties": {}}


@every_row(
    ("quirks", "tool", "strict", "losses"),
    [
        ({}, Tool("f", schema=CLOSED, strict=True), True, []),
        ({}, Tool("f", schema=SCHEMA, strict=True), None, ["tools.0.strict"]),
        ({}, Tool("f", schema={"type": "object", "properties": {"a": SCHEMA}, "required": ["a"], "additionalProperties": False}, strict=True), None, ["tools.0.strict"]),
        ({}, Tool("f", schema=SCHEMA, strict=False), False, []),
        ({"strict_tools": False}, Tool("f", schema=CLOSED, strict=True), None, ["tools.0.strict"]),
        ({"strict_tools": False}, Tool("f", schema=CLOSED, strict=False), None, []),
    ],
)  # fmt: skip
def test_only_a_closed_schema_of_another_api_is_strict(quirks, tool, strict, losses):
    outgoing = encode(quirks, tools=(tool,), origin="anthropic")
    assert outgoing.body["tools"][0]["function"].get("strict") == strict
    assert lost(outgoing) == losses


def test_free_text_is_a_custom_tool_only_for_its_own_api():
    tool = Tool("patch", "d", freeform=True, origin="openai_chat")
    written = {
        "type": "custom",
        "custom": {"name": "patch", "description": "d", "format": {"type": "text"}},
        "beside": 1,
    }
    tool = sourced(tool, Origin("openai_chat", "tools.0", written, ("beside",)))
    assert body(tools=(tool,), origin="openai_chat")["tools"] == [written]
    for other in (
        body(tools=(tool,), origin="openai_responses"),
        body({"custom_tools": False}, tools=(tool,), origin="openai_chat"),
    ):
        (offered,) = other["tools"]
        assert offered["function"]["parameters"]["required"] == ["input"]


def test_a_hosted_tool_goes_only_to_its_own_api():
    own = Tool("web_search", origin="openai_chat", hosted={"type": "web_search"})
    other = Tool("bash", origin="anthropic", hosted={"type": "bash_20250124"})
    outgoing = encode(tools=(own, other), tool_choice=ToolChoice("none"))
    assert outgoing.body["tools"] == [{"type": "web_search"}]
    assert lost(outgoing) == ["tools.1"]


def test_a_namespace_that_is_laid_flat_loses_nothing():
    assert lost(encode(tools=(Tool("ns__f", namespace="ns"),))) == []


def test_a_deferred_tool_is_offered_last_and_only_once_it_was_found():
    late = Tool("late", schema=SCHEMA, deferred=True)
    never = Tool("never", schema=SCHEMA, deferred=True)
    found = (*HELLO, Turn("user", (Result("a", (Reference("late"),)),)))
    names = [t["function"]["name"] for t in body(tools=(late, never, F), turns=found)["tools"]]
    assert names == ["f", "late"]
    assert "tools" not in body(tools=(late, never))
    named = body(tools=(late, F), tool_choice=ToolChoice("named", ("late",)))
    assert [t["function"]["name"] for t in named["tools"]] == ["late", "f"]


@every_row(
    ("quirks", "choice", "wanted", "names", "losses"),
    [
        ({}, ToolChoice(), None, ["f", "g"], []),
        ({}, ToolChoice("none"), "none", ["f", "g"], []),
        ({}, ToolChoice("required"), "required", ["f", "g"], []),
        ({}, ToolChoice("named", ("g",)), {"type": "function", "function": {"name": "g"}}, ["f", "g"], []),
        ({"tool_choice_named": False}, ToolChoice("named", ("g",)), "required", ["g"], []),
        ({"tool_choice_named": False, "tool_choice_required": False}, ToolChoice("named", ("g",)), None, ["g"], ["tool_choice.mode"]),
        ({"tool_choice_required": False}, ToolChoice("required"), None, ["f", "g"], ["tool_choice.mode"]),
        ({}, ToolChoice("named", ("x",)), None, ["f", "g"], ["tool_choice"]),
        ({}, ToolChoice("required", ("g",)), "required", ["g"], []),
        ({}, ToolChoice("auto", ("g",)), None, ["g"], []),
        (
            {"allowed_tools": True},
            ToolChoice("required", ("g",)),
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}},
            ["f", "g"],
            [],
        ),
    ],
)  # fmt: skip
def test_a_choice_is_said_as_the_place_can_hear_it(quirks, choice, wanted, names, losses):
    outgoing = encode(quirks, tools=(F, G), tool_choice=choice)
    assert outgoing.body.get("tool_choice") == wanted
    assert [tool["function"]["name"] for tool in outgoing.body["tools"]] == names
    assert lost(outgoing) == losses


@pytest.mark.parametrize("mode", ["required", "named"])
def test_without_tools_there_is_nothing_to_choose(mode):
    outgoing = encode(tool_choice=ToolChoice(mode, ("f",)))
    assert "tool_choice" not in outgoing.body
    assert lost(outgoing) == ["tool_choice"]


@every_row(
    ("quirks", "parallel", "sent", "losses"),
    [
        ({}, False, False, []),
        ({}, True, True, []),
        ({"parallel_tool_calls": False}, False, None, ["tool_choice.parallel"]),
        ({"parallel_tool_calls": False}, True, None, []),
    ],
)
def test_calls_are_held_to_one_at_a_time_where_that_is_known(quirks, parallel, sent, losses):
    outgoing = encode(quirks, tools=(F,), tool_choice=ToolChoice(parallel=parallel))
    assert outgoing.body.get("parallel_tool_calls") is sent
    assert lost(outgoing) == losses


# ── settings ──


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_limit_goes_into_the_field_of_the_place(field):
    sent = body({"max_tokens_field": field}, max_tokens=9)
    assert sent[field] == 9
    assert ("max_tokens" in sent) != ("max_completion_tokens" in sent)


@pytest.mark.parametrize(("most", "sent"), [(4, list("abcd")), (1, ["a"]), (0, None)])
def test_only_so_many_stop_sequences_are_taken(most, sent):
    outgoing = encode({"max_stop": most}, stop=tuple("abcde"))
    assert outgoing.body.get("stop") == sent
    assert outgoing.stops == tuple("abcde"[most:])
    assert lost(outgoing) == []


EVERYTHING = Sampling(0.5, 0.9, 4, 0.1, 7, 1.0, -1.0, 1.1, 3)


@every_row(
    ("quirks", "losses"),
    [
        ({}, ["top_k", "min_p", "repeat_penalty"]),
        ({"extra_sampling": ["top_k", "min_p", "repetition_penalty"]}, []),
        ({"extra_sampling": ["top_k", "repeat_penalty"]}, ["min_p"]),
        (
            {"sampling": False},
            ["temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repeat_penalty", "logprobs"],
        ),
    ],
)  # fmt: skip
def test_sampling_is_sent_where_it_is_taken(quirks, losses):
    outgoing = encode(quirks, sampling=EVERYTHING)
    assert lost(outgoing) == [f"sampling.{name}" for name in losses]
    back = decode_request(dump_bytes(outgoing.body)).sampling
    for name in Sampling.__struct_fields__:
        expected = None if name in losses else getattr(EVERYTHING, name)
        assert getattr(back, name) == expected, name


@every_row(
    ("quirks", "output", "format", "losses"),
    [
        ({}, OutputFormat(), {"type": "json_object"}, []),
        ({}, OutputFormat(SCHEMA), {"type": "json_schema", "json_schema": {"name": "response", "schema": SCHEMA}}, []),
        ({}, OutputFormat(SCHEMA, "n", True), {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}, []),
        ({"json_schema": False}, OutputFormat(SCHEMA), {"type": "json_object"}, ["output.schema"]),
    ],
)  # fmt: skip
def test_an_output_is_a_response_format(quirks, output, format, losses):
    outgoing = encode(quirks, output=output)
    assert outgoing.body["response_format"] == format
    assert lost(outgoing) == losses


@pytest.mark.parametrize(
    ("quirks", "user", "sent", "losses"),
    [
        ({}, "ada", {"user": "ada"}, []),
        ({"user_field": "safety_identifier"}, "ada", {"safety_identifier": "ada"}, []),
        ({"user_field": ""}, "ada", {}, ["user"]),
    ],
)
def test_the_user_goes_into_the_field_of_the_place(quirks, user, sent, losses):
    outgoing = encode(quirks, user=user)
    names = {"user", "safety_identifier"} & set(outgoing.body)
    assert {name: outgoing.body[name] for name in names} == sent
    assert lost(outgoing) == losses


def test_a_long_user_is_sent_as_a_short_name_that_stays_the_same():
    first, second = encode(user="u" * 200), encode(user="u" * 200)
    assert len(first.body["user"]) <= 64
    assert first.body["user"] == second.body["user"] != encode(user="v" * 200).body["user"]
    assert lost(first) == ["user"]


@pytest.mark.req("ZG-26")
def test_store_is_refused_only_where_it_is_known():
    assert body(providers.load("openai").other_apis["openai_chat"])["store"] is False
    assert "store" not in body()
    assert "store" not in body(providers.load("groq").quirks)


@pytest.mark.req("ZG-26")
def test_a_client_that_wants_its_answer_stored_is_heard():
    assert body({"store": True}, origin="openai_chat", extra={"store": True})["store"] is True


@pytest.mark.req("ZG-30")
@pytest.mark.parametrize(
    ("retention", "sent"),
    [
        ("none", {}),
        ("short", {"prompt_cache_key": "s1"}),
        ("long", {"prompt_cache_key": "s1", "prompt_cache_retention": "24h"}),
    ],
)
def test_a_session_is_the_key_of_the_cache(retention, sent):
    told = body({"prompt_cache_key": True, "cache_retention": retention}, session="s1")
    assert {name: told[name] for name in told if name.startswith("prompt_cache")} == sent
    assert "prompt_cache_key" not in body(session="s1")


def test_a_stream_asks_for_its_counts():
    assert body(stream=True)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in body()
    assert "stream_options" not in body({"stream_usage": False}, stream=True)
    kept = {"stream_options": {"include_obfuscation": False}}
    assert body(stream=True, origin="openai_chat", extra=kept)["stream_options"] == {
        "include_obfuscation": False,
        "include_usage": True,
    }
    assert "stream_options" not in body(origin="openai_chat", extra=kept)


def test_fields_of_this_api_come_back_and_those_of_another_are_lost():
    extra = {"logit_bias": {"1": 2}, "store": True}
    own = encode(origin="openai_chat", extra=extra)
    assert own.body["logit_bias"] == {"1": 2}
    assert own.losses == ()
    other = encode(origin="anthropic", extra=extra)
    assert "logit_bias" not in other.body
    assert lost(other) == ["logit_bias"]


def test_the_configuration_has_the_last_word():
    assert encode(options={"stream": True, "x": 1}).body["x"] == 1


@every_row(
    ("output", "quirks", "text", "said"),
    [
        (OutputFormat(), {}, "Hi", True),
        (OutputFormat(), {}, "As Json, please", False),
        (OutputFormat({"type": "object"}), {}, "Hi", False),
        (OutputFormat({"type": "object"}), {"json_schema": False}, "Hi", True),
        (None, {}, "Hi", False),
    ],
)
def test_json_is_asked_for_in_words_where_nobody_did(output, quirks, text, said):
    sent = body(quirks, output=output, turns=(Turn("user", (Text(text),)),), origin="ollama")
    assert [m["role"] for m in sent["messages"]] == (["system", "user"] if said else ["user"])
    if said:
        assert "JSON" in sent["messages"][0]["content"]


def test_a_client_of_this_api_says_the_word_itself():
    sent = body(output=OutputFormat(), origin="openai_chat")
    assert [m["role"] for m in sent["messages"]] == ["user"]
