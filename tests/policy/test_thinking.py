"""Whether a model can think, and what becomes of a request that wants it to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.codec import Target
from toolbridge.core.errors import ThinkingUnsupported, status_of
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import Request, Think
from toolbridge.policy.thinking import (
    THINKING_PREFIXES,
    Verdict,
    attaches,
    decide,
    is_thinking_capable,
    with_levels,
)

MODES = ["on", "auto", "off", "between_tools", "unset"]


def asking(mode):
    return Request("llama3.1:8b", think=Think(mode, budget=1024, effort="high"))


@pytest.mark.req("PX-16")
def test_the_prefixes_are_exactly_these_six():
    wanted = ["qwen3", "deepseek-r1", "magistral", "nemotron", "glm4", "qwq"]
    assert list(THINKING_PREFIXES) == wanted


@pytest.mark.req("PX-17")
@every_row(
    ("model", "capable"),
    [
        ("qwen3:8b", True),
        ("qwen3", True),
        ("deepseek-r1:14b", True),
        ("magistral:24b", True),
        ("nemotron:latest", True),
        ("qwen3-vl:4b", True),
        ("glm4", True),
        ("qwq:32b", True),
        ("QWEN3:8B", True),
        ("library/qwen3:8b", True),
        ("hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M", True),
        ("llama3.1:8b", False),
        ("mistral:latest", False),
        ("qwen3/llama3:8b", False),
        ("my-qwen3", False),
        ("", False),
    ],
)
def test_a_model_thinks_when_its_name_begins_so(model, capable):
    assert is_thinking_capable(model) is capable


@pytest.mark.req("PX-18")
@every_row(
    ("thinking", "validated"),
    [
        (None, False),
        ({"type": "enabled", "budget_tokens": 1024}, True),
        ({"type": "adaptive"}, True),
        ({"type": "disabled"}, True),
    ],
)
def test_a_request_is_validated_if_it_has_thinking_of_any_type(thinking, validated):
    body = {"model": "llama3.1:8b", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]}
    if thinking:
        body["thinking"] = thinking
    request = codecs.load("anthropic").decode_request(dump_bytes(body))
    try:
        verdict = decide(request, capable=False, setting="reject")
    except ThinkingUnsupported:
        assert thinking["type"] != "disabled"
    else:
        assert (verdict != Verdict(request)) is validated
        assert verdict.request.think == Think()


@every_row(
    ("user_agent", "app", "by_itself"),
    [
        ("claude-cli/2.1.325 (external, sdk-cli)", "cli", True),
        ("claude-cli/0.24.4 (external, cli)", "", True),
        ("GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)", "", True),
        ("opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14", "", True),
        ("Anthropic/Python 2.8.0", "", False),
        ("google-genai-sdk/3.1.0 gl-python/3.11", "", False),
        ("curl/8 claude-cli/1", "", False),
        ("", "cli", True),
        ("", "", False),
    ],
)
def test_claude_code_attaches_thinking_by_itself(user_agent, app, by_itself):
    assert attaches(user_agent, app) is by_itself


@pytest.mark.req("PX-20")
@given(st.sampled_from(MODES), st.sampled_from(["auto", "drop", "reject"]), st.booleans())
def test_a_capable_model_is_asked_as_the_client_asks(mode, setting, by_itself):
    request = asking(mode)
    verdict = decide(request, capable=True, setting=setting, attaches=by_itself)
    assert verdict == Verdict(request)


REJECTED = [
    ("auto", False, "on"),
    ("reject", False, "on"),
    ("reject", True, "on"),
    ("reject", False, "auto"),
    ("reject", True, "auto"),
    ("reject", False, "between_tools"),
    ("reject", True, "between_tools"),
]


@pytest.mark.req("PX-19", "PX-X1")
@every_row("mode", MODES)
@every_row("by_itself", [False, True])
@every_row("setting", ["auto", "drop", "reject"])
def test_an_incapable_model_is_rejected_spared_or_left_alone(setting, by_itself, mode):
    request = asking(mode)

    def verdict():
        return decide(request, capable=False, setting=setting, attaches=by_itself)

    if mode == "unset":
        assert verdict() == Verdict(request)
    elif mode == "off":  # a model that cannot think need not be told not to
        assert verdict() == Verdict(Request("llama3.1:8b"))
    elif (setting, by_itself, mode) in REJECTED:
        with pytest.raises(ThinkingUnsupported):
            verdict()
    else:
        assert verdict().request == Request("llama3.1:8b")
        assert [loss.what for loss in verdict().losses] == ["think"]


@pytest.mark.req("PX-19")
def test_the_refusal_names_the_model_the_capable_ones_and_the_way_out():
    with pytest.raises(ThinkingUnsupported) as raised:
        decide(asking("on"), capable=False)
    problem = raised.value.problem
    assert problem.kind == "thinking_not_supported"
    assert status_of(problem) == 400
    for word in ("llama3.1:8b", *THINKING_PREFIXES, 'thinking = "drop"'):
        assert word in problem.text


@every_row(
    ("origin", "think", "refused"),
    [
        ("anthropic", Think("on", budget=1024), True),
        ("anthropic", Think("on"), True),
        ("gemini", Think("on", budget=512), True),
        ("gemini", Think("auto", effort="high"), False),
        ("openai_chat", Think("on", effort="high"), False),
        ("openai_chat", Think("on"), False),
        ("openai_responses", Think("auto", effort="low"), False),
        ("ollama", Think("on"), False),
        ("ollama", Think("on", effort="high"), False),
    ],
)
def test_only_a_budget_is_an_error(origin, think, refused):
    request = Request("llama3.1:8b", think=think, origin=origin)
    if refused:
        with pytest.raises(ThinkingUnsupported):
            decide(request, capable=False)
    else:
        verdict = decide(request, capable=False)
        assert verdict.request.think == Think()
        assert [loss.what for loss in verdict.losses] == ["think"]


@every_row(
    ("model", "levels"),
    [("gpt-oss:20b", True), ("openai/gpt-oss-120b", True), ("my-gpt-oss", False), ("qwen3", False)],
)
@every_row("api", ["ollama", "openai_chat"])
def test_gpt_oss_takes_levels(api, model, levels):
    target = with_levels(Target(model), api)
    assert bool(target.quirks) is levels
    kept = with_levels(Target(model, quirks={"efforts": ["high"]}), "openai_chat")
    assert kept.quirks["efforts"] == ["high"]
    assert with_levels(Target(model), "gemini") == Target(model)
