import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.codecs.openai_responses.encode_request import encode_request
from toolbridge.core.codec import Target
from toolbridge.core.errors import ConfigError
from toolbridge.core.messages import (
    OutputFormat,
    Request,
    Sampling,
    Text,
    Think,
    Turn,
)

ORIGIN = "openai_responses"


def encode(quirks=None, target=None, **fields):
    asked = Request("m", (Turn("user", (Text("hi"),)),), **fields)
    return encode_request(asked, target or Target(quirks=quirks or {}))


def body(quirks=None, **fields):
    return encode(quirks, **fields).body


def lost(quirks=None, **fields):
    return [loss.what for loss in encode(quirks, **fields).losses]


def test_a_request_goes_to_the_responses():
    sent = encode(target=Target(model="gpt-5"), stream=True)
    assert sent.path == "/responses"
    assert sent.body["model"] == "gpt-5"
    assert sent.body["stream"] is True
    assert sent.losses == ()


@pytest.mark.req("ZG-27")
def test_nothing_is_stored_and_thoughts_come_sealed():
    sent = body()
    assert sent["store"] is False
    assert sent["include"] == ["reasoning.encrypted_content"]


@pytest.mark.req("ZG-27")
@pytest.mark.parametrize(
    ("extra", "store"),
    [
        ({"store": True}, True),
        ({"previous_response_id": "resp_1"}, None),
        ({"metadata": {}}, False),
    ],
)
def test_a_client_of_this_api_may_have_its_answer_stored(extra, store):
    assert body(origin=ORIGIN, extra=extra).get("store") is store


def test_what_else_is_to_be_included_stays():
    sent = body(origin=ORIGIN, extra={"include": ["web_search_call.results"]})
    assert sent["include"] == ["reasoning.encrypted_content", "web_search_call.results"]


@pytest.mark.req("ZG-28", "ZG-30")
@pytest.mark.parametrize(("retention", "key"), [("none", None), ("short", "s1"), ("long", "s1")])
def test_the_session_is_the_key_of_the_cache(retention, key):
    assert body({"cache_retention": retention}, session="s1").get("prompt_cache_key") == key


@pytest.mark.req("ZG-29", "ZG-30")
@every_row("openai", [True, False])
@every_row("retention", ["none", "short", "long"])
def test_only_openai_keeps_a_prefix_for_a_day_and_only_when_asked(openai, retention):
    wanted = "24h" if openai and retention == "long" else None
    by_place = body({"openai": openai, "cache_retention": retention})
    by_request = body({"openai": openai}, extra={"cache_retention": retention})
    assert by_place.get("prompt_cache_retention") == wanted
    assert by_request.get("prompt_cache_retention") == wanted


def test_a_quirk_that_does_not_exist_is_named():
    with pytest.raises(ConfigError, match="cache_retention"):
        body({"cache": True})


def test_a_limit_that_is_too_small_is_raised():
    assert body(max_tokens=3)["max_output_tokens"] == 16
    assert lost(max_tokens=3) == ["max_tokens"]
    assert body(max_tokens=16)["max_output_tokens"] == 16
    assert lost(max_tokens=16) == []


def test_stop_sequences_are_left_and_most_of_sampling_is_lost():
    sampling = Sampling(temperature=0.5, top_p=0.9, top_k=3, seed=1, logprobs=2)
    sent = encode(stop=("x",), sampling=sampling)
    assert (sent.body["temperature"], sent.body["top_p"], sent.body["top_logprobs"]) == (
        0.5,
        0.9,
        2,
    )
    assert [loss.what for loss in sent.losses] == ["sampling.top_k", "sampling.seed"]
    assert sent.stops == ("x",)


def test_a_model_that_only_reasons_takes_no_sampling():
    sent = encode({"sampling": False}, sampling=Sampling(temperature=0.5))
    assert "temperature" not in sent.body
    assert [loss.what for loss in sent.losses] == ["sampling.temperature"]


@every_row(
    ("think", "reasoning", "losses"),
    [
        (Think(), None, []),
        (Think("off"), {"effort": "none"}, []),
        (Think("auto", effort="high"), {"effort": "high", "summary": "auto"}, []),
        (Think("auto"), {"summary": "auto"}, []),
        (Think("on"), {"effort": "medium", "summary": "auto"}, []),
        (Think("on", effort="low", show="omitted"), {"effort": "low"}, []),
        (Think("on", budget=1024), {"effort": "low", "summary": "auto"}, ["think"]),
        (Think("on", budget=8192), {"effort": "medium", "summary": "auto"}, ["think"]),
        (Think("on", budget=24576), {"effort": "high", "summary": "auto"}, ["think"]),
        (Think("on", budget=24577), {"effort": "xhigh", "summary": "auto"}, ["think"]),
        (Think("auto", show="full"), {"summary": "auto"}, ["think.show"]),
        (Think("between_tools"), {"summary": "auto"}, ["think.mode"]),
    ],
)
def test_how_to_think_is_said(think, reasoning, losses):
    sent = encode(think=think)
    assert sent.body.get("reasoning") == reasoning
    assert [loss.what for loss in sent.losses] == losses


def test_a_client_of_this_api_asks_for_summaries_itself():
    assert body(origin=ORIGIN, think=Think("auto", effort="low"))["reasoning"] == {"effort": "low"}
    rest = {"summary": "detailed", "context": "all_turns"}
    shown = Think("auto", show="summarized")
    assert body(origin=ORIGIN, think=shown, extra={"reasoning": rest})["reasoning"] == rest


def test_a_model_that_cannot_think_is_not_asked_to():
    sent = encode(target=Target(model="m", capabilities=frozenset()), think=Think("on"))
    assert "reasoning" not in sent.body
    assert [loss.what for loss in sent.losses] == ["think"]


def test_a_model_that_must_think_is_not_told_otherwise():
    assert lost({"effort_none": False}, think=Think("off")) == ["think"]


FORM = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


@pytest.mark.parametrize(
    ("output", "format"),
    [
        (OutputFormat(), {"type": "json_object"}),
        (
            OutputFormat(FORM, strict=False),
            {"type": "json_schema", "name": "response", "schema": FORM, "strict": False},
        ),
        (
            OutputFormat(FORM, "x", strict=True),
            {"type": "json_schema", "name": "x", "schema": FORM, "strict": True},
        ),
    ],
)
def test_the_shape_of_the_answer_is_flat(output, format):
    assert body(output=output)["text"] == {"format": format}


def test_verbosity_stays_beside_the_format():
    sent = body(origin=ORIGIN, output=OutputFormat(), extra={"text": {"verbosity": "low"}})
    assert sent["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}


def test_what_only_another_api_knows_is_lost():
    assert lost(origin="anthropic", extra={"context_management": {"edits": [1]}}) == [
        "context_management"
    ]


@pytest.mark.parametrize("field", ["safety_identifier", "user"])
def test_the_user_is_named(field):
    assert body({"user_field": field}, user="a")[field] == "a"
    assert lost({"user_field": ""}, user="a") == ["user"]


@given(st.text(min_size=65, max_size=200))
def test_a_long_user_is_a_hash(user):
    sent = encode(user=user)
    assert len(sent.body["safety_identifier"]) == 32
    assert [loss.what for loss in sent.losses] == ["user"]


def test_the_configuration_has_the_last_word():
    assert encode(target=Target(options={"store": True})).body["store"] is True


@every_row(
    ("fields", "said"),
    [
        ({"output": OutputFormat()}, True),
        ({"output": OutputFormat(), "system": (Text("JSON"),)}, True),
        ({"output": OutputFormat(), "system": (Text("a"), Text("json"))}, False),
        ({"output": OutputFormat(), "origin": ORIGIN}, False),
        ({"output": OutputFormat({"type": "object"})}, False),
        ({}, False),
    ],
)
def test_json_is_asked_for_in_the_input_where_nobody_did(fields, said):
    first = body(**fields)["input"][0]
    asked = {"type": "message", "role": "developer", "content": "Answer with JSON."}
    assert (first == asked) is said


@every_row("name", ["openai_chat", "openai_responses", "gemini", "ollama"])
def test_who_the_user_is_changes_no_answer(name):
    asked = Request("m", (Turn("user", (Text("hi"),)),), user="u" * 99)
    (loss,) = codecs.load(name).encode_request(asked, Target()).losses
    assert (loss.what, loss.minor) == ("user", True)


def test_log_probabilities_of_another_api_are_asked_for_with_include():
    request = Request(model="m", sampling=Sampling(logprobs=2), origin="openai_chat")
    body = encode_request(request, Target(model="m")).body
    assert body["top_logprobs"] == 2
    assert "message.output_text.logprobs" in body["include"]
