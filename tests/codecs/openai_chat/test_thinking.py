from tests.tables import every_row

from toolbridge.codecs.openai_chat.quirks import read_quirks
from toolbridge.codecs.openai_chat.shapes import Detail
from toolbridge.codecs.openai_chat.thinking import decode_seal, encode_seal, encode_thinking
from toolbridge.core.codec import Target
from toolbridge.core.messages import Opaque, Think


def ask(think, *, capabilities=None, tools=False, **quirks):
    target = Target("m", capabilities=capabilities)
    fields, losses = encode_thinking(think, read_quirks(quirks), target, tools=tools)
    return fields, [loss.what for loss in losses]


@every_row(
    ("think", "quirks", "fields", "losses"),
    [
        (Think(), {}, {}, []),
        (Think("auto"), {}, {}, []),
        (Think("on", effort="low"), {}, {"reasoning_effort": "low"}, []),
        (Think(effort="high"), {}, {"reasoning_effort": "high"}, []),
        (Think("on"), {}, {"reasoning_effort": "medium"}, []),
        (Think("on", budget=1024), {}, {"reasoning_effort": "low"}, ["think.budget"]),
        (Think("on", budget=5000), {}, {"reasoning_effort": "medium"}, ["think.budget"]),
        (Think("on", budget=30000), {}, {"reasoning_effort": "high"}, ["think.budget"]),
        (Think("on", effort="max"), {"efforts": ["low", "high"]}, {"reasoning_effort": "high"}, ["think.effort"]),
        (Think("on", effort="minimal"), {"efforts": ["low", "high"]}, {"reasoning_effort": "low"}, ["think.effort"]),
        (Think("on", effort="low"), {"efforts": []}, {}, ["think.effort"]),
        (Think("off"), {}, {}, ["think.mode"]),
        (Think("off"), {"effort_none": True}, {"reasoning_effort": "none"}, []),
        (Think("off", effort="none"), {}, {"reasoning_effort": "none"}, []),
        (Think("on", effort="low", show="summarized"), {}, {"reasoning_effort": "low"}, ["think.show"]),
        (Think("on", effort="low"), {"thinking_format": "none"}, {}, ["think"]),
        (Think(), {"thinking_format": "none"}, {}, []),
        (Think("on"), {"thinking_format": "zai"}, {"thinking": {"type": "enabled"}}, []),
        (Think("off"), {"thinking_format": "zai"}, {"thinking": {"type": "disabled"}}, []),
        (Think("auto"), {"thinking_format": "zai"}, {}, []),
        (Think("on", effort="low"), {"thinking_format": "zai"}, {"thinking": {"type": "enabled"}}, ["think.effort"]),
        (Think("on", budget=9), {"thinking_format": "qwen"}, {"enable_thinking": True}, ["think.budget"]),
        (Think("off"), {"thinking_format": "qwen"}, {"enable_thinking": False}, []),
        (Think("auto"), {"thinking_format": "qwen"}, {}, []),
        (Think("on"), {"thinking_format": "llamacpp"}, {"chat_template_kwargs": {"enable_thinking": True}}, []),
        (Think("off"), {"thinking_format": "llamacpp"}, {"chat_template_kwargs": {"enable_thinking": False}}, []),
        (Think("auto"), {"thinking_format": "llamacpp"}, {}, []),
        (Think("on", effort="low", budget=9), {"thinking_format": "llamacpp"}, {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "low"}}, ["think.budget"]),
        (Think("on"), {"thinking_format": "openrouter"}, {"reasoning": {"enabled": True}}, []),
        (Think("on", effort="low"), {"thinking_format": "openrouter"}, {"reasoning": {"effort": "low"}}, []),
        (Think("on", budget=9), {"thinking_format": "openrouter"}, {"reasoning": {"max_tokens": 9}}, []),
        (Think("auto"), {"thinking_format": "openrouter"}, {}, []),
        (Think("off"), {"thinking_format": "openrouter"}, {"reasoning": {"enabled": False}}, []),
        (Think("on", show="omitted"), {"thinking_format": "openrouter"}, {"reasoning": {"enabled": True, "exclude": True}}, []),
        (Think("on", show="full"), {"thinking_format": "openrouter"}, {"reasoning": {"enabled": True}}, ["think.show"]),
    ],
)  # fmt: skip
def test_thinking_is_asked_for_as_the_place_can_hear_it(think, quirks, fields, losses):
    assert ask(think, **quirks) == (fields, losses)


@every_row("format", ["openai", "zai", "qwen", "openrouter", "llamacpp"])
def test_a_model_that_cannot_think_is_not_asked_to(format):
    none = frozenset({"tools"})
    assert ask(Think("on"), capabilities=none, thinking_format=format) == ({}, ["think"])


def test_tools_may_cost_the_reasoning():
    wanted = Think("on", effort="high")
    assert ask(wanted, tools=True, effort_with_tools=False) == (
        {"reasoning_effort": "none"},
        ["think"],
    )
    assert ask(Think(), tools=True, effort_with_tools=False) == ({"reasoning_effort": "none"}, [])
    assert ask(wanted, tools=False, effort_with_tools=False) == ({"reasoning_effort": "high"}, [])


@every_row(
    "detail",
    [
        Detail("reasoning.text", signature="s"),
        Detail("reasoning.encrypted", data="z"),
        Detail("reasoning.text", signature="s", format="anthropic-claude-v1", index=0),
        Detail("reasoning.encrypted", data="z", id="rs_1", format="openai-responses-v1"),
    ],
)
def test_a_seal_goes_back_as_it_came(detail):
    assert encode_seal(decode_seal(detail)) == detail


def test_a_detail_without_a_token_is_no_seal():
    assert decode_seal(Detail("reasoning.text", text="A", index=0)) is None


def test_a_seal_of_another_api_stays_away():
    assert encode_seal(Opaque("anthropic", "signature", "s")) is None
    assert encode_seal(Opaque("openai_chat/openrouter", "signature", "s")) is not None
