import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.gemini.decode_request import decode_request
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.messages import OutputFormat, Text, Think, Tool, ToolChoice, Turn
from toolbridge.core.server_tools import ServerTool

HELLO = [{"role": "user", "parts": [{"text": "Hi"}]}]


def read(model="m", stream=None, **fields):
    body = json.dumps({"contents": HELLO} | fields).encode()
    return decode_request(body, model=model, stream=stream)


def config(**fields):
    return read(generationConfig=fields)


def test_the_path_says_the_model_and_whether_to_stream():
    request = read(model="gemini-3.8-flash", stream=True)
    assert (request.model, request.stream) == ("gemini-3.8-flash", True)
    assert read(model="x", model_in_body=1).model == "x"
    assert not read().stream


def test_a_model_in_the_body_is_read_without_its_folder():
    body = json.dumps({"model": "models/gemini-3.8-flash", "contents": HELLO}).encode()
    request = decode_request(body)
    assert request.model == "gemini-3.8-flash"
    assert request.extra == {}


def test_what_a_counter_is_sent_may_be_wrapped():
    inner = {"model": "models/m", "contents": HELLO, "system_instruction": "S"}
    body = json.dumps({"generateContentRequest": inner}).encode()
    request = decode_request(body, model="m", counting=True)
    assert request.turns == (Turn("user", (Text("Hi"),)),)
    assert request.system == (Text("S"),)


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ("Hi", "Hi"),
        ({"parts": [{"text": "Hi"}]}, "Hi"),
        ([{"parts": [{"text": "Hi"}]}], "Hi"),
    ],
)
def test_contents_may_be_one_or_bare_text(contents, said):
    assert read(contents=contents).turns == (Turn("user", (Text(said),)),)


@every_row(
    ("body", "where"),
    [
        ({}, "contents"),
        ({"contents": []}, "contents"),
        ({"contents": None}, "contents"),
        ({"contents": [{"parts": 5}]}, "contents.0.parts"),
        ({"contents": [{"parts": [{"text": 5}]}]}, "contents.0.parts.0.text"),
        (
            {"contents": [{"parts": [{"text": "a"}, {"functionCall": {"args": 1}}]}]},
            "contents.0.parts.1.functionCall.args",
        ),
        ({"contents": HELLO, "tools": [{"functionDeclarations": [{}]}]}, "tools.0.functionDeclarations.0.name"),
        ({"contents": HELLO, "tools": [{"functionDeclarations": [{"name": ""}]}]}, "tools.0.functionDeclarations.0.name"),
        ({"contents": HELLO, "generation_config": {"top_p": "x"}}, "generationConfig.topP"),
        ({"contents": HELLO, "generationConfig": {"maxOutputTokens": 0}}, "generationConfig.maxOutputTokens"),
        (
            {"contents": HELLO, "generationConfig": {"thinkingConfig": {"thinkingBudget": []}}},
            "generationConfig.thinkingConfig.thinkingBudget",
        ),
        (
            {"contents": HELLO, "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": 1}}},
            "toolConfig.functionCallingConfig.allowedFunctionNames",
        ),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_path(body, where):
    with pytest.raises(MalformedRequest) as caught:
        decode_request(json.dumps(body).encode(), model="m")
    assert caught.value.problem.where == where


def test_a_request_without_a_model_is_refused():
    with pytest.raises(MalformedRequest, match="model"):
        decode_request(json.dumps({"contents": HELLO}).encode())


@every_row("body", [b"", b"{", b"[]", b"null", b"\xff"])
def test_what_is_no_object_is_refused(body):
    with pytest.raises(MalformedRequest):
        decode_request(body, model="m")


def test_a_schema_that_is_nested_too_deeply_is_refused():
    # 450 levels are within the limit of recursion from Python 3.12 on.
    deep = b'{"properties":{"a":' * 2000 + b"{}" + b"}}" * 2000
    tools = b'[{"functionDeclarations":[{"name":"f","parameters":' + deep + b"}]}]"
    with pytest.raises(MalformedRequest, match="too deeply"):
        decode_request(b'{"contents":"Hi","tools":' + tools + b"}", model="m")


# ── tools ────────────────────────────────────────────────────────────────────


def test_every_kind_of_tool_has_its_own_entry():
    tools = [
        {
            "functionDeclarations": [
                {"name": "a", "description": "A", "parametersJsonSchema": {"type": "object", "$id": "x"}},
                {"name": "b", "parameters": {"type": "OBJECT", "properties": {"n": {"type": "NUMBER"}}}},
            ],
            "googleSearch": {"timeRangeFilter": {}},
        },
        {"urlContext": {}, "codeExecution": None},
    ]  # fmt: skip
    assert read(tools=tools).tools == (
        Tool("a", "A", {"type": "object", "$id": "x"}),
        Tool("b", "", {"type": "object", "properties": {"n": {"type": "number"}}}),
        Tool(
            "googleSearch",
            origin="gemini",
            hosted={"googleSearch": {"timeRangeFilter": {}}},
            server=ServerTool("web_search"),
        ),
        Tool(
            "urlContext", origin="gemini", hosted={"urlContext": {}}, server=ServerTool("web_fetch")
        ),
    )


def test_a_declaration_says_which_of_its_fields_only_gemini_has():
    tools = [{"functionDeclarations": [{"name": "f", "behavior": "BLOCKING"}, {"name": "g"}]}]
    f, g = read(tools=tools).tools
    assert (f.source.path, f.source.unknown) == ("tools.0.functionDeclarations.0", ("behavior",))
    assert g.source.unknown == ()


@every_row(
    ("calling", "choice", "extra"),
    [
        ({}, ToolChoice(), {}),
        ({"mode": "AUTO"}, ToolChoice(), {}),
        ({"mode": "NONE"}, ToolChoice("none"), {}),
        ({"mode": "ANY"}, ToolChoice("required"), {}),
        ({"mode": "ANY", "allowedFunctionNames": ["a"]}, ToolChoice("named", ("a",)), {}),
        ({"mode": "ANY", "allowedFunctionNames": ["a", "b"]}, ToolChoice("required", ("a", "b")), {}),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["a"]}, ToolChoice("auto", ("a",)), {}),
        ({"mode": "VALIDATED"}, ToolChoice(), {"mode": "VALIDATED"}),
        ({"mode": "BRAND_NEW"}, ToolChoice(), {"mode": "BRAND_NEW"}),
        (
            {"mode": "AUTO", "streamFunctionCallArguments": True},
            ToolChoice(),
            {"streamFunctionCallArguments": True},
        ),
    ],
)  # fmt: skip
def test_modes_of_calling_are_choices(calling, choice, extra):
    request = read(toolConfig={"functionCallingConfig": calling})
    assert request.tool_choice == choice
    kept = request.extra.get("toolConfig", {})
    assert kept == ({"functionCallingConfig": extra} if extra else {})


# ── settings ─────────────────────────────────────────────────────────────────


def test_settings_of_sampling_are_read():
    request = config(
        temperature=0.5, topP=0.9, topK=40, seed=7, presencePenalty=1, frequencyPenalty=-1,
        maxOutputTokens="100", stopSequences=["a", "b"], responseLogprobs=True, logprobs=3,
    )  # fmt: skip
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 40)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (1.0, -1.0)
    assert (sampling.seed, sampling.logprobs) == (7, 3)
    assert request.max_tokens == 100
    assert request.stop == ("a", "b")


def test_logprobs_count_only_where_they_are_asked_for():
    assert config(logprobs=3).sampling.logprobs is None
    assert config(responseLogprobs=True).sampling.logprobs == 0


@every_row(
    ("given", "think"),
    [
        ({}, Think()),
        ({"includeThoughts": False}, Think()),
        ({"includeThoughts": True}, Think("auto", show="summarized")),
        ({"thinkingBudget": 0}, Think("off")),
        ({"thinkingBudget": -1}, Think("auto", show="omitted")),
        ({"thinkingBudget": 512, "includeThoughts": True}, Think("on", 512, show="summarized")),
        ({"thinkingLevel": "HIGH"}, Think("auto", effort="high", show="omitted")),
        ({"thinkingLevel": "MINIMAL"}, Think("auto", effort="minimal", show="omitted")),
    ],
)
def test_thinking_is_read(given, think):
    assert config(thinkingConfig=given).think == think


def test_a_level_that_we_do_not_know_is_kept():
    request = config(thinkingConfig={"thinkingLevel": "ULTRA"})
    assert request.think == Think()
    assert request.extra == {"generationConfig": {"thinkingConfig": {"thinkingLevel": "ULTRA"}}}


@every_row(
    ("given", "output"),
    [
        ({"responseMimeType": "text/plain"}, None),
        ({"responseMimeType": "application/json"}, OutputFormat()),
        (
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
            OutputFormat(schema={"type": "object"}),
        ),
        ({"responseSchema": {"type": "STRING", "nullable": True}}, OutputFormat(schema={"type": ["string", "null"]})),
    ],
)  # fmt: skip
def test_the_form_of_the_answer_is_read(given, output):
    request = config(**given)
    assert request.output == output
    both = "responseJsonSchema" in given
    spelt = {k: v for k, v in given.items() if k == "responseSchema" and not both}
    assert request.extra == ({"generationConfig": spelt} if spelt else {})


def test_a_form_that_only_gemini_has_is_kept():
    given = {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}}
    request = config(**given)
    assert request.output is None
    assert request.extra == {"generationConfig": given}


def test_fields_that_only_gemini_has_are_kept():
    request = read(
        safetySettings=[{"category": "C", "threshold": "OFF"}],
        cachedContent="cachedContents/1",
        labels={"a_b": "c"},
        generation_config={"candidate_count": 2, "speech_config": {"voice_config": {}}},
        brand_new=None,
    )
    assert request.extra == {
        "safetySettings": [{"category": "C", "threshold": "OFF"}],
        "cachedContent": "cachedContents/1",
        "labels": {"a_b": "c"},
        "generationConfig": {"speechConfig": {"voiceConfig": {}}},
    }
    assert request.sampling.n == 2


@pytest.mark.parametrize("level", ["HIGH", "high"])
def test_a_level_of_thinking_is_one_in_any_case(level):
    config = {"generationConfig": {"thinkingConfig": {"thinkingLevel": level}}}
    body = {"contents": [{"parts": [{"text": "x"}]}], **config}
    found = decode_request(json.dumps(body).encode(), model="m")
    assert found.think.effort == "high"
    assert "generationConfig" not in found.extra
