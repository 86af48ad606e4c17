"""The request that reaches each model obeys its rules, without any configuration."""

import pytest

from toolbridge.config import Config, ModelConfig, ProviderConfig
from toolbridge.core.errors import ThinkingUnsupported
from toolbridge.core.messages import Request, Sampling, Text, Think, Tool, ToolChoice, Turn
from toolbridge.routing.models import ModelRoutes
from toolbridge.translate import RequestOptions, plan
from toolbridge.upstream.http import Upstream

KEYS = {
    "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k", "TOGETHER_API_KEY": "k",
    "XAI_API_KEY": "k", "GROQ_API_KEY": "k", "OPENROUTER_API_KEY": "k",
}  # fmt: skip
TOOL = Tool("f", "", {"type": "object"})
HI = (Turn("user", (Text("hi"),)),)


async def sent(address: str, *, api: str = "", config: Config | None = None, **fields):
    """Return the body for a model, and the paths of the losses."""
    async with Upstream() as upstream:
        route = await ModelRoutes(config or Config(), upstream, KEYS).route(address)
    asked = Request(model=address, **{"turns": HI, **fields})
    if api:
        route = route.serving(api, asked)
    ready = plan(asked, route.request_encoder, route.target, RequestOptions(attaches=True))
    return ready.outgoing.body, {loss.what for loss in ready.losses}, ready.outgoing.path


# ── Anthropic ──


@pytest.mark.parametrize(
    ("model", "think", "thinking", "effort"),
    [
        # adaptive only: a budget becomes an effort
        ("claude-opus-5-5", Think("on", budget=2000), {"type": "adaptive"}, "low"),
        ("claude-opus-5-5", Think("on", budget=8000), {"type": "adaptive"}, "medium"),
        ("claude-opus-5-5", Think("on", budget=30000), {"type": "adaptive"}, "high"),
        ("claude-opus-4-7", Think("on", budget=30000), {"type": "adaptive"}, "high"),
        ("claude-opus-5-5", Think("auto", effort="xhigh"), {"type": "adaptive"}, "xhigh"),
        ("claude-opus-5-5", Think("unset", effort="minimal"), None, "low"),
        # always on: it cannot be turned off
        ("claude-opus-5-5", Think("off"), None, "low"),
        ("claude-fable-5", Think("off"), None, "low"),
        ("claude-fable-5-2", Think("off"), None, "low"),  # newer than the table
        ("claude-haiku-5-5", Think("off"), {"type": "disabled"}, None),
        ("claude-opus-5", Think("off", effort="max"), {"type": "disabled"}, "high"),
        ("claude-sonnet-5-5", Think("between_tools"), {"type": "between_tools"}, None),
        ("claude-opus-5-5", Think("between_tools"), {"type": "adaptive"}, None),
        # both kinds: as the client wrote it
        ("claude-sonnet-4-6", Think("on", budget=8000), {"type": "enabled", "budget_tokens": 8000}, None),
        ("claude-sonnet-4-6", Think("auto", effort="xhigh"), {"type": "adaptive"}, "high"),
        # a budget only: an effort becomes a budget
        ("claude-sonnet-4-5", Think("auto", effort="high"), {"type": "enabled", "budget_tokens": 10000}, None),
        ("claude-sonnet-4-5", Think("auto", effort="low"), {"type": "enabled", "budget_tokens": 2048}, None),
        ("claude-haiku-4-5", Think("on", budget=4000), {"type": "enabled", "budget_tokens": 4000}, None),
        ("claude-haiku-4-5", Think("unset", effort="high"), None, None),
        ("claude-opus-4-5", Think("auto", effort="max"), {"type": "enabled", "budget_tokens": 10000}, "high"),
    ],
)  # fmt: skip
async def test_claude_gets_the_thinking_that_it_accepts(model, think, thinking, effort):
    body, lost, _ = await sent(f"anthropic/{model}", think=think, max_tokens=20_000)
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort
    changed = think.budget is not None and thinking and thinking["type"] != "enabled"
    if changed or think.effort not in {"", effort}:
        assert any(what.startswith("think") for what in lost)


@pytest.mark.parametrize(
    ("model", "kept"),
    [("claude-opus-5-5", False), ("claude-opus-4-7", False), ("claude-sonnet-4-6", True),
     ("claude-fable-5-2", False), ("claude-haiku-4-5", True)],
)  # fmt: skip
async def test_claude_from_4_7_on_gets_no_sampling(model, kept):
    sampling = Sampling(temperature=0.5, top_p=0.9, top_k=9)
    body, lost, _ = await sent(f"anthropic/{model}", sampling=sampling)
    assert ({"temperature", "top_p", "top_k"} <= body.keys()) is kept
    assert ("sampling.temperature" in lost) is not kept


@pytest.mark.parametrize("mode", ["required", "named"])
async def test_a_forced_call_is_asked_for_in_words_where_it_is_rejected(mode):
    choice = ToolChoice(mode, ("f",) if mode == "named" else ())
    body, lost, _ = await sent("anthropic/claude-opus-5-5", tools=(TOOL,), tool_choice=choice)
    assert "tool_choice" not in body
    assert "Answer with a call of" in body["system"][-1]["text"]
    assert "tool_choice.mode" in lost
    body, _, _ = await sent("anthropic/claude-haiku-5-5", tools=(TOOL,), tool_choice=choice)
    assert body["tool_choice"]["type"] == {"required": "any", "named": "tool"}[mode]


async def test_claude_does_not_think_about_a_forced_call():
    choice = ToolChoice("required")
    asked = {"tools": (TOOL,), "tool_choice": choice, "think": Think("on", budget=2000)}
    body, lost, _ = await sent("anthropic/claude-sonnet-4-5", **asked)
    assert body["tool_choice"] == {"type": "any"}
    assert "thinking" not in body
    assert "think" in lost


@pytest.mark.parametrize(
    ("model", "think", "last"),
    [
        ("claude-sonnet-4-5", Think(), "assistant"),
        ("claude-sonnet-4-5", Think("on", budget=2000), "user"),
        ("claude-opus-4-6", Think(), "user"),
        ("claude-fable-5-2", Think(), "user"),
    ],
)
async def test_claude_continues_a_message_only_up_to_4_5(model, think, last):
    turns = (*HI, Turn("assistant", (Text("The answer is"),)))
    body, _, _ = await sent(f"anthropic/{model}", turns=turns, think=think)
    assert body["messages"][-1]["role"] == last


@pytest.mark.req("ZG-25")
@pytest.mark.parametrize(
    ("model", "asked", "limit"),
    [
        ("claude-sonnet-4-5", None, 21_333),
        ("claude-opus-5-5", None, 32_000),
        ("claude-sonnet-4-5", 100_000, 64_000),
        ("claude-next-99", None, 32_000),
        ("claude-next-99", 500_000, 500_000),
    ],
)
async def test_the_default_limit_of_a_claude_is_a_third_of_its_maximum(model, asked, limit):
    body, _, _ = await sent(f"anthropic/{model}", max_tokens=asked)
    assert body["max_tokens"] == limit


@pytest.mark.req("ZG-29")
async def test_openai_keeps_a_prefix_for_a_day_on_request():
    body, _, path = await sent(
        "openai/gpt-6-sol",
        session="s",
        origin="openai_responses",
        extra={"cache_retention": "long"},
    )
    assert path == "/responses"
    assert (body["prompt_cache_key"], body["prompt_cache_retention"]) == ("s", "24h")


# ── OpenAI ──


@pytest.mark.parametrize(
    ("model", "think", "effort"),
    [
        ("gpt-6.1-sol", Think("auto", effort="max"), "max"),
        ("gpt-6.1-sol", Think("off"), "low"),
        ("gpt-5.6-sol", Think("auto", effort="max"), "xhigh"),
        ("gpt-5.6-sol", Think("off"), "none"),
        ("gpt-5.1", Think("auto", effort="minimal"), "low"),
        ("gpt-5.1", Think("auto", effort="xhigh"), "high"),
        ("gpt-5", Think("auto", effort="minimal"), "minimal"),
        ("gpt-5", Think("off"), "minimal"),
        ("gpt-5-pro", Think("auto", effort="low"), "high"),
        ("gpt-5.5-pro", Think("auto", effort="low"), "medium"),
        ("o3", Think("on", budget=50_000), "high"),
        ("gpt-4.1", Think("off"), None),
        ("gpt-9", Think("auto", effort="max"), "max"),  # unknown: as it is
    ],
)
async def test_openai_gets_an_effort_that_the_model_has(model, think, effort):
    body, _, path = await sent(f"openai/{model}", think=think)
    assert path == "/responses"
    assert body.get("reasoning", {}).get("effort") == effort


@pytest.mark.parametrize("api", ["", "openai_chat"])
@pytest.mark.parametrize(
    ("model", "think", "kept"),
    [
        ("gpt-4.1", Think(), True),
        ("o3", Think(), False),
        ("gpt-5", Think(), False),
        ("gpt-5.1", Think(), True),  # it does not think by default
        ("gpt-5.1", Think("auto", effort="low"), False),
        ("gpt-5.5", Think(), False),
        ("gpt-5.5", Think("off", effort="none"), True),
        ("gpt-6-astra", Think("off", effort="none"), False),
    ],
)
async def test_openai_gets_sampling_only_without_reasoning(api, model, think, kept):
    sampling = Sampling(temperature=0.5, top_p=0.9)
    body, lost, _ = await sent(f"openai/{model}", api=api, think=think, sampling=sampling)
    assert ({"temperature", "top_p"} <= body.keys()) is kept
    assert ("sampling.temperature" in lost) is not kept


@pytest.mark.parametrize(
    ("model", "think", "tools", "path"),
    [
        ("gpt-4.1", Think(), True, "/chat/completions"),
        ("gpt-5.2", Think("on", effort="high"), True, "/chat/completions"),
        ("gpt-5.4", Think(), False, "/chat/completions"),
        ("gpt-5.4", Think(), True, "/responses"),
        ("gpt-5.6-sol", Think("on", effort="high"), True, "/responses"),
        ("gpt-5.6-sol", Think("off", effort="none"), True, "/chat/completions"),
        ("gpt-6-astra", Think("off", effort="none"), True, "/responses"),
        ("gpt-6-astra", Think(), False, "/chat/completions"),
        ("gpt-5.3-codex", Think(), False, "/responses"),
        ("o3-pro", Think(), False, "/responses"),
        ("gpt-8-pro", Think(), False, "/responses"),
        ("brand-new", Think("on", effort="high"), True, "/chat/completions"),
    ],
)
async def test_a_client_of_chat_completions_keeps_its_api_where_the_model_accepts_it(
    model, think, tools, path
):
    asked = {"think": think, "tools": (TOOL,) if tools else ()}
    assert (await sent(f"openai/{model}", api="openai_chat", **asked))[2] == path
    assert (await sent(f"openai/{model}", api="anthropic", **asked))[2] == "/responses"


async def test_a_server_in_openais_place_gets_chat_completions():
    at = ProviderConfig(url="http://127.0.0.1:9/v1")
    body, _, path = await sent("openai/gpt-4.1", config=Config(providers={"openai": at}))
    assert path == "/chat/completions"
    assert "store" in body


async def test_other_apis_have_no_default_limit():
    for model in ("openai/gpt-6-sol", "google/gemini-3.8-flash"):
        body, _, _ = await sent(model)
        assert "max_output_tokens" not in body
        assert "generationConfig" not in body
    body, lost, _ = await sent("openai/gpt-4.1", max_tokens=100_000)
    assert body["max_output_tokens"] == 32_768
    assert "max_tokens" in lost


# ── Gemini ──


@pytest.mark.parametrize(
    ("model", "think", "config"),
    [
        ("gemini-2.5-pro", Think("off"), {"thinkingBudget": 128}),
        ("gemini-2.5-pro", Think("auto", effort="max"), {"thinkingBudget": 32768, "includeThoughts": True}),
        ("gemini-2.5-flash", Think("off"), {"thinkingBudget": 0}),
        ("gemini-2.5-flash-lite", Think("off"), {"thinkingBudget": 0}),
        ("gemini-2.5-flash-lite", Think("on", budget=100), {"thinkingBudget": 512, "includeThoughts": True}),
        ("gemini-3.6-flash", Think("off"), {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.8-flash", Think("off"), {"thinkingLevel": "LOW"}),
        ("gemini-3.7-flash", Think("auto", effort="minimal"), {"thinkingLevel": "LOW", "includeThoughts": True}),
        ("gemini-4-argon", Think("on", budget=50_000), {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemma-4-31b-it", Think("auto", effort="medium"), {"thinkingLevel": "HIGH", "includeThoughts": True}),
    ],
)  # fmt: skip
async def test_gemini_gets_a_level_or_a_budget(model, think, config):
    body, _, _ = await sent(f"google/{model}", think=think)
    assert body["generationConfig"]["thinkingConfig"] == config


# ── others ──


async def test_a_model_without_levels_gets_none():
    body, lost, _ = await sent("together/moonshotai/Kimi-K3", think=Think("auto", effort="high"))
    assert "reasoning_effort" not in body
    assert "think.effort" in lost
    body, _, _ = await sent("together/openai/gpt-oss-120b", think=Think("auto", effort="max"))
    assert body["reasoning_effort"] == "high"


async def test_the_table_replaces_a_built_in_quirk_and_not_the_users():
    think = Think("auto", effort="xhigh")
    body, _, _ = await sent("xai/grok-4.7", think=think)
    assert body["reasoning_effort"] == "xhigh"  # xai.toml has low and high
    mine = Config(providers={"xai": ProviderConfig(quirks={"efforts": ["medium"]})})
    body, _, _ = await sent("xai/grok-4.7", think=think, config=mine)
    assert body["reasoning_effort"] == "medium"
    own = Config(models={"xai/grok-4.7": ModelConfig(quirks={"efforts": ["low"]})})
    body, _, _ = await sent("xai/grok-4.7", think=think, config=own)
    assert body["reasoning_effort"] == "low"


async def test_a_window_of_the_table_rejects_no_request():
    async with Upstream() as upstream:
        for model in ("openai/gpt-4o", "anthropic/claude-opus-5-5", "google/gemini-2.5-pro"):
            route = await ModelRoutes(Config(), upstream, KEYS).route(model)
            assert route.target.window == 0
            assert route.facts.known.window
            assert route.facts.sources["window"] == "table"


async def test_a_budget_for_a_model_that_does_not_think_is_an_error_of_the_user():
    async with Upstream() as upstream:
        route = await ModelRoutes(Config(), upstream, KEYS).route("openai/gpt-4.1")
    asked = Request(model="m", turns=HI, think=Think("on", budget=2000))
    with pytest.raises(ThinkingUnsupported):
        plan(asked, route.request_encoder, route.target, RequestOptions())
