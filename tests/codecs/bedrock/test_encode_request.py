"""Requests for the Converse API, read from the encoded body."""

import json
import re

import pytest
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.codec import Target
from toolbridge.core.errors import ConfigError
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Image,
    Opaque,
    OutputFormat,
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
from toolbridge.translate import RequestOptions, plan

CODEC = codecs.load_target("bedrock")
HI = (Turn("user", (Text("hi"),)),)
WEATHER = Tool("weather", "The weather", {"type": "object", "properties": {"c": {}}})
CALLED = (
    *HI,
    Turn("assistant", (Call("call_1", "weather", {"c": "Oslo"}),)),
    Turn("user", (Result("call_1", (Text("rain"),)),)),
)


def encode(request: Request, **target):
    return CODEC.encode_request(request, Target(model="amazon.nova-pro-v1:0", **target))


def body(turns=HI, *, quirks=None, **fields):
    return encode(Request("m", turns, **fields), quirks=quirks or {}).body


def lost(turns=HI, *, quirks=None, **fields):
    sent = encode(Request("m", turns, **fields), quirks=quirks or {})
    return {loss.what: loss.why for loss in sent.losses}


@every_row(
    ("model", "stream", "path"),
    [
        ("amazon.nova-pro-v1:0", False, "/model/amazon.nova-pro-v1:0/converse"),
        ("us.meta.llama4-v1:0", True, "/model/us.meta.llama4-v1:0/converse-stream"),
        ("arn:aws:bedrock:eu-west-1:1:prompt-router/x", True, "/model/arn:aws:bedrock:eu-west-1:1:prompt-router%2Fx/converse-stream"),
        ("../../evil?x#y", False, "/model/..%2F..%2Fevil%3Fx%23y/converse"),
    ],
)  # fmt: skip
def test_the_model_is_one_segment_of_the_path(model, stream, path):
    sent = CODEC.encode_request(Request("m", HI, stream=stream), Target(model=model))
    assert sent.path == path
    assert "model" not in sent.body
    assert "stream" not in sent.body


def test_a_plain_request():
    sent = body(
        system=(Text("be kind"),), max_tokens=9, stop=("END", " "),
        sampling=Sampling(temperature=0.5, top_p=0.9),
    )  # fmt: skip
    assert sent == {
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        "system": [{"text": "be kind"}],
        "inferenceConfig": {
            "temperature": 0.5, "topP": 0.9, "maxTokens": 9, "stopSequences": ["END"],
        },
    }  # fmt: skip
    assert encode(Request("m", HI, stop=("END", " "))).stops == (" ",)


def test_sampling_that_converse_does_not_have_is_lost_or_goes_to_the_model():
    sampling = Sampling(temperature=1.5, top_k=5, seed=1)
    assert lost(sampling=sampling).keys() == {
        "sampling.temperature", "sampling.top_k", "sampling.seed",
    }  # fmt: skip
    sent = body(sampling=sampling, quirks={"extra_sampling": ["top_k"]})
    assert sent["inferenceConfig"] == {"temperature": 1}
    assert sent["additionalModelRequestFields"] == {"top_k": 5}


def test_tools_and_calls():
    sent = body(CALLED, tools=(WEATHER, Tool("bare", strict=True)))
    assert sent["toolConfig"] == {
        "tools": [
            {"toolSpec": {"name": "weather", "description": "The weather", "inputSchema": {"json": WEATHER.schema}}},
            {"toolSpec": {"name": "bare", "inputSchema": {"json": {"type": "object", "properties": {}}}, "strict": True}},
        ]
    }  # fmt: skip
    assert sent["messages"][1:] == [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "call_1", "name": "weather", "input": {"c": "Oslo"}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "call_1", "content": [{"text": "rain"}]}}]},
    ]  # fmt: skip


@every_row(
    ("choice", "expected"),
    [
        (ToolChoice(), None),
        (ToolChoice("required"), {"any": {}}),
        (ToolChoice("named", ("weather",)), {"tool": {"name": "weather"}}),
        (ToolChoice("required", ("weather",)), {"tool": {"name": "weather"}}),
    ],
)
def test_tool_choices(choice, expected):
    sent = body(tools=(WEATHER,), tool_choice=choice)
    assert sent["toolConfig"].get("toolChoice") == expected


def test_there_is_no_choice_none():
    assert "toolConfig" not in body(tools=(WEATHER,), tool_choice=ToolChoice("none"))
    sent = body(CALLED, tools=(WEATHER,), tool_choice=ToolChoice("none"))
    assert "toolChoice" not in sent["toolConfig"]
    losses = lost(CALLED, tools=(WEATHER,), tool_choice=ToolChoice("none"))
    assert "tool_choice.mode" in losses


def test_past_calls_need_tools():
    sent = encode(Request("m", CALLED))
    assert sent.body["toolConfig"]["tools"] == [
        {"toolSpec": {"name": "weather", "inputSchema": {"json": {"type": "object"}}}}
    ]
    (loss,) = sent.losses
    assert (loss.what, loss.minor) == ("tools", True)


def test_long_ids_and_names_are_mapped_both_ways():
    long = "call_" + "x" * 80
    turns = (
        *HI,
        Turn("assistant", (Call(long, "a b", {}),)),
        Turn("user", (Result(long, (Text("ok"),)),)),
    )
    request = Request("m", turns, tools=(Tool("a b"), Tool("n" * 70)), origin="openai_chat")
    ready = plan(request, CODEC, Target(model="m"), RequestOptions())
    messages = ready.outgoing.body["messages"]
    id = messages[1]["content"][0]["toolUse"]["toolUseId"]
    assert re.fullmatch(r"[a-zA-Z0-9_.:-]{1,64}", id)
    assert messages[2]["content"][0]["toolResult"]["toolUseId"] == id
    names = [t["toolSpec"]["name"] for t in ready.outgoing.body["toolConfig"]["tools"]]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert {ready.names[name] for name in names} == {"a b", "n" * 70}


def test_results_come_first_and_errors_are_marked():
    turns = (*CALLED[:2], Turn("user", (Text("so?"), Result("call_1", (), is_error=True))))
    content = body(turns, tools=(WEATHER,))["messages"][2]["content"]
    assert content == [
        {"toolResult": {"toolUseId": "call_1", "content": [], "status": "error"}},
        {"text": "so?"},
    ]


def test_thoughts_return_only_with_their_own_signature():
    thoughts = (
        Thinking("mine", (Opaque("bedrock/bedrock/m", "signature", "sig"),)),
        Thinking("", (Opaque("bedrock", "redacted", "c2VjcmV0"),)),
        Thinking("theirs", (Opaque("anthropic", "signature", "x"),)),
        Text("so"),
    )
    turns = (*HI, Turn("assistant", thoughts), *HI)
    assert body(turns)["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "mine", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "c2VjcmV0"}},
        {"text": "so"},
    ]
    assert lost(turns).keys() == {"turns.1.content.2"}


@every_row(
    ("think", "quirks", "extra", "effort"),
    [
        (Think("on", 2000), {"thinking_style": "anthropic"}, {"type": "enabled", "budget_tokens": 2000}, None),
        (Think("on", 99_000), {"thinking_style": "anthropic"}, {"type": "enabled", "budget_tokens": 3999}, None),
        (Think("auto", effort="high"), {"thinking_style": "anthropic"}, {"type": "adaptive"}, "high"),
        (Think("auto", effort="minimal"), {"thinking_style": "effort"}, None, "low"),
        (Think("on", 2000, "max"), {"thinking_style": "effort"}, None, "max"),
        (Think("off"), {"thinking_style": "anthropic"}, None, None),
        (Think("auto", effort="high"), {}, None, None),
    ],
)  # fmt: skip
def test_thinking(think, quirks, extra, effort):
    sent = body(think=think, max_tokens=4000, quirks=quirks)
    assert sent.get("additionalModelRequestFields", {}).get("thinking") == extra
    assert sent.get("outputConfig", {}).get("effort") == effort


def test_thinking_that_cannot_be_set_is_lost():
    assert "think" in lost(think=Think("on", 2000))
    assert "think" in lost(
        think=Think("on", 2000), max_tokens=50, quirks={"thinking_style": "anthropic"}
    )
    assert lost(think=Think("off")) == {}


def test_a_schema_is_a_text():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    sent = body(output=OutputFormat(schema, "thing"))
    form = sent["outputConfig"]["textFormat"]
    assert form["type"] == "json_schema"
    inner = form["structure"]["jsonSchema"]
    assert inner["name"] == "thing"
    assert json.loads(inner["schema"]) == schema | {"additionalProperties": False}
    assert lost(output=OutputFormat()).keys() == {"output"}
    assert lost(output=OutputFormat(schema), quirks={"json_schema": False}).keys() == {
        "output.schema"
    }


def test_cache_points_follow_their_parts_where_the_model_takes_them():
    turns = (Turn("user", (Text("a", cache="5m"), Text("b"))),)
    fields = {"system": (Text("s", cache="1h"),), "tools": (Tool("t", cache="5m"),)}
    sent = body(turns, quirks={"cache_breakpoints": True}, **fields)
    point, long = {"cachePoint": {"type": "default"}}, {"cachePoint": {"type": "default", "ttl": "1h"}}  # fmt: skip
    assert sent["system"] == [{"text": "s"}, long]
    assert sent["messages"][0]["content"] == [{"text": "a"}, point, {"text": "b"}]
    assert sent["toolConfig"]["tools"][1] == point
    assert "cachePoint" not in json.dumps(body(turns, **fields))


def test_images_and_documents():
    parts = (
        Image("aGk=", "image/png"),
        Image(url="data:image/webp;base64,aGk="),
        Image(url="https://x/y.png"),
        Image("aGk=", "image/tiff"),
        Document("aGk=", "application/pdf", title="Q3/report: 50%"),
        Document(text="plain", title=""),
        Document(url="https://x/y.pdf", title="far"),
        Audio("aGk=", "audio/wav"),
    )
    sent = body((Turn("user", parts),))["messages"][0]["content"]
    assert sent[0] == {"image": {"format": "png", "source": {"bytes": "aGk="}}}
    assert sent[1] == {"image": {"format": "webp", "source": {"bytes": "aGk="}}}
    assert sent[4] == {
        "document": {"name": "Q3 report 50 1", "format": "pdf", "source": {"bytes": "aGk="}}
    }
    assert sent[5] == {
        "document": {"name": "document 2", "format": "txt", "source": {"text": "plain"}}
    }
    assert [list(block) for block in sent[2:4] + sent[6:]] == [["text"]] * 4
    assert lost((Turn("user", parts),)).keys() == {
        f"turns.0.content.{number}" for number in (2, 3, 6, 7)
    }


def test_a_model_without_vision_gets_a_text():
    request = Request("m", (Turn("user", (Image("aGk=", "image/png"),)),))
    sent = encode(request, capabilities=frozenset({"tools"}))
    assert "cannot see images" in sent.body["messages"][0]["content"][0]["text"]
    assert sent.losses


def test_options_join_the_fields_of_the_model():
    options = {"additionalModelRequestFields": {"k": 1}, "requestMetadata": {"a": "b"}}
    request = Request("m", HI, sampling=Sampling(top_k=3))
    sent = encode(request, quirks={"extra_sampling": ["top_k"]}, options=options).body
    assert sent["additionalModelRequestFields"] == {"top_k": 3, "k": 1}
    assert sent["requestMetadata"] == {"a": "b"}


def test_an_unknown_quirk_is_an_error():
    with pytest.raises(ConfigError, match="cache_breakpoints"):
        body(quirks={"cache_breakpoint": True})
