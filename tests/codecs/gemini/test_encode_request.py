import pytest
from msgspec.structs import replace
from tests.tables import every_row

from toolbridge.codecs.gemini.encode_request import encode_request
from toolbridge.core.codec import Target
from toolbridge.core.messages import (
    Origin,
    OutputFormat,
    Reference,
    Request,
    Result,
    Sampling,
    Text,
    Think,
    Tool,
    ToolChoice,
    Turn,
)

PLAIN = Request(model="m", turns=(Turn("user", (Text("Hi"),)),))
SCHEMA = {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}, "$schema": "x"}
F, G = Tool("f", "F", SCHEMA), Tool("g")


def sent(target=None, **fields):
    outgoing = encode_request(replace(PLAIN, **fields), target or Target(model="gemini-3.1-pro"))
    return outgoing.body, [loss.what for loss in outgoing.losses]


def config(target=None, **fields):
    body, lost = sent(target, **fields)
    return body.get("generationConfig", {}), lost


@every_row(
    ("model", "stream", "path"),
    [
        ("gemini-3.1-pro", False, "/v1beta/models/gemini-3.1-pro:generateContent"),
        ("gemini-3.1-pro", True, "/v1beta/models/gemini-3.1-pro:streamGenerateContent?alt=sse"),
        ("models/x", False, "/v1beta/models/x:generateContent"),
        ("tunedModels/x", False, "/v1beta/tunedModels/x:generateContent"),
        ("", False, "/v1beta/models/m:generateContent"),
    ],
)
def test_the_path_says_the_model_and_whether_to_stream(model, stream, path):
    outgoing = encode_request(replace(PLAIN, stream=stream), Target(model=model))
    assert outgoing.path == path
    assert "model" not in outgoing.body
    assert "stream" not in outgoing.body


def test_a_plain_request_says_nothing_more():
    assert sent() == ({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}, [])


def test_the_system_has_its_own_place():
    body, _ = sent(system=(Text("a", cache="5m"), Text("b")))
    assert body["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}


# ── tools ────────────────────────────────────────────────────────────────────


def test_functions_share_one_entry_and_hosted_tools_follow():
    search = Tool("googleSearch", origin="gemini", hosted={"googleSearch": {}})
    body, lost = sent(tools=(search, F, G))
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "F", "parametersJsonSchema": SCHEMA},
                {"name": "g"},
            ]
        },
        {"googleSearch": {}},
    ]
    assert lost == []


def test_a_tool_that_another_api_runs_is_lost():
    body, lost = sent(tools=(Tool("web_search", origin="anthropic", hosted={}),))
    assert "tools" not in body
    assert lost == ["tools.0"]


def test_a_schema_without_a_type_is_one_of_an_object():
    body, _ = sent(tools=(Tool("f", schema={"properties": {}}),))
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert declared["parametersJsonSchema"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "target", [Target(model="x", quirks={"json_schema": False}), Target(model="gemini-2.0-flash")]
)
def test_a_place_may_want_the_subset_of_openapi(target):
    body, _ = sent(target, tools=(F, G, Tool("h", schema={"type": "object"})))
    assert body["tools"][0]["functionDeclarations"] == [
        {
            "name": "f",
            "description": "F",
            "parameters": {
                "type": "OBJECT",
                "properties": {"n": {"type": "INTEGER", "nullable": True}},
            },
        },
        {"name": "g"},
        {"name": "h"},
    ]


def test_free_text_is_carried_as_one_argument():
    body, _ = sent(tools=(Tool("patch", freeform=True),))
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert declared["parametersJsonSchema"]["properties"] == {"input": {"type": "string"}}


def test_what_a_tool_cannot_say_is_lost():
    _, lost = sent(tools=(replace(F, strict=True, namespace="n"), replace(G, strict=False)))
    assert lost == ["tools.0.strict"]


def test_deferred_tools_are_offered_at_the_end_once_they_are_found():
    late = Tool("late", deferred=True)
    result = Result("1", (Reference("late"),))
    found = (*PLAIN.turns, Turn("user", (result,)))
    names = [
        d["name"] for d in sent(tools=(late, G), turns=found)[0]["tools"][0]["functionDeclarations"]
    ]
    assert names == ["g", "late"]
    assert "tools" not in sent(tools=(late,))[0]
    assert "tools" in sent(tools=(late,), tool_choice=ToolChoice("named", ("late",)))[0]


@every_row(
    ("choice", "calling", "lost"),
    [
        (ToolChoice(), None, []),
        (ToolChoice(parallel=True), None, []),
        (ToolChoice(parallel=False), None, ["tool_choice.parallel"]),
        (ToolChoice("none"), {"mode": "NONE"}, []),
        (ToolChoice("none", ("f",)), {"mode": "NONE"}, ["tool_choice.names"]),
        (ToolChoice("required"), {"mode": "ANY"}, []),
        (ToolChoice("named", ("f",)), {"mode": "ANY", "allowedFunctionNames": ["f"]}, []),
        (ToolChoice("required", ("f", "g")), {"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, []),
        (ToolChoice("auto", ("f",)), {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, []),
    ],
)  # fmt: skip
def test_choices_are_modes_of_calling(choice, calling, lost):
    body, losses = sent(tools=(F, G), tool_choice=choice)
    assert body.get("toolConfig", {}).get("functionCallingConfig") == calling
    assert losses == lost


def test_a_choice_without_tools_is_lost():
    assert sent(tool_choice=ToolChoice("required")) == (sent()[0], ["tool_choice"])


# ── settings ─────────────────────────────────────────────────────────────────


def test_settings_are_written():
    sampling = Sampling(0.5, 0.9, 40, seed=7, frequency_penalty=1.0, presence_penalty=-1.0, logprobs=2)  # fmt: skip
    found, lost = config(sampling=sampling, max_tokens=10, stop=("a",))
    assert found == {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "seed": 7,
        "frequencyPenalty": 1.0,
        "presencePenalty": -1.0,
        "responseLogprobs": True,
        "logprobs": 2,
        "maxOutputTokens": 10,
        "stopSequences": ["a"],
    }
    assert lost == []


def test_what_gemini_does_not_take_is_lost():
    found, lost = config(sampling=Sampling(min_p=0.1, repeat_penalty=1.1), user="me")
    assert found == {}
    assert lost == ["sampling.min_p", "sampling.repeat_penalty", "user"]


def test_the_chosen_token_alone_is_reported_without_a_number():
    assert config(sampling=Sampling(logprobs=0))[0] == {"responseLogprobs": True}


def test_a_temperature_beyond_the_range_is_lowered():
    assert config(sampling=Sampling(temperature=3.0)) == (
        {"temperature": 2.0},
        ["sampling.temperature"],
    )


def test_the_newest_models_are_not_told_how_to_sample():
    sampling = Sampling(temperature=0.5, top_p=0.5, top_k=5, seed=1)
    found, lost = config(Target(model="gemini-4-argon"), sampling=sampling)
    assert found == {"seed": 1}
    assert lost == ["sampling.temperature", "sampling.top_p", "sampling.top_k"]


def test_five_stop_sequences_are_taken():
    found, lost = config(stop=tuple("abcdefg"))
    assert found == {"stopSequences": list("abcde")}
    assert lost == []
    assert encode_request(Request("m", stop=tuple("abcdefg")), Target()).stops == ("f", "g")


@pytest.mark.parametrize(
    ("output", "expected", "lost"),
    [
        (OutputFormat(), {"responseMimeType": "application/json"}, []),
        (
            OutputFormat(SCHEMA, "n", strict=True),
            {
                "responseMimeType": "application/json",
                "responseJsonSchema": {k: SCHEMA[k] for k in ("type", "properties")},
            },
            ["output.name", "output.strict"],
        ),
    ],
)
def test_the_form_of_the_answer_is_written(output, expected, lost):
    assert config(output=output) == (expected, lost)


def test_an_old_model_takes_json_only_without_tools_and_by_the_subset():
    target = Target(model="gemini-2.0-flash")
    found, lost = config(target, output=OutputFormat(SCHEMA))
    assert found["responseSchema"]["type"] == "OBJECT"
    assert lost == []
    assert config(target, output=OutputFormat(SCHEMA), tools=(F,)) == ({}, ["output"])


def test_a_model_that_cannot_think_is_not_asked_to():
    target = Target(model="m", capabilities=frozenset({"tools"}))
    assert config(target, think=Think("on")) == ({}, ["think"])
    assert config(target, think=Think("unset", effort="high")) == ({}, ["think"])


def test_thinking_is_part_of_the_settings():
    found, _ = config(think=Think("auto", effort="low"))
    assert found == {"thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True}}


# ── what belongs to others ───────────────────────────────────────────────────


def test_own_fields_are_put_back_where_they_were():
    extra = {
        "alt": "json",
        "safetySettings": [],
        "generationConfig": {"candidateCount": 2, "thinkingConfig": {"new": 1}},
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}},
    }
    written = {"name": "old", "behavior": "BLOCKING"}
    source = Origin("gemini", "tools.0.functionDeclarations.0", written, ("behavior",))
    body, lost = sent(
        origin="gemini",
        extra=extra,
        tools=(replace(F, source=source),),
        think=Think("auto", effort="low"),
        max_tokens=5,
    )
    assert body["safetySettings"] == []
    assert body["generationConfig"] == {
        "candidateCount": 2,
        "maxOutputTokens": 5,
        "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True, "new": 1},
    }
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert body["tools"][0]["functionDeclarations"][0]["behavior"] == "BLOCKING"
    assert "alt" not in body
    assert lost == []


def test_fields_of_other_apis_are_lost():
    body, lost = sent(origin="anthropic", extra={"context_management": {"edits": [1]}})
    assert body == sent()[0]
    assert lost == ["context_management"]


def test_the_configuration_has_the_last_word():
    options = {"generationConfig": {"topK": 1}, "serviceTier": "flex"}
    body, _ = sent(Target(model="m", options=options), max_tokens=5, sampling=Sampling(top_k=9))
    assert body["generationConfig"] == {"topK": 1, "maxOutputTokens": 5}
    assert body["serviceTier"] == "flex"
