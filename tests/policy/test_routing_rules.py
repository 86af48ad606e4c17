"""Rules of `[[routes]]`: conditions, their order, and weighted targets."""

from collections import Counter

import msgspec
import pytest
from tests.tables import every_row

from toolbridge import codecs, config_file
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import Image, Request, Result, Text, Think, Turn
from toolbridge.policy.routing_rules import (
    LONG_CONTEXT,
    RequestTraits,
    RoutingRule,
    WeightedModel,
    check_rules,
    matches,
    traits_of,
    weighted_choice,
)


@every_row(
    ("pattern", "name", "expected"),
    [
        ("gpt-5", "gpt-5", True),
        ("gpt-5", "gpt-5-mini", False),
        ("claude-haiku-*", "claude-haiku-4-5-20251001", True),
        ("claude-*", "claude-sonnet-4-5[1m]", True),
        ("claude-sonnet-4-5", "claude-sonnet-4-5[1m]", True),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5[1m]", True),
        ("haiku", "claude-haiku-4-5", True),
        ("haiku", "my-haiku-writer", False),
        ("*flash*", "models/gemini-3-flash-preview", True),
        ("*FLASH*", "gemini-3-flash-preview", True),
        ("ollama/*", "ollama/qwen3:8b", True),
    ],
)
def test_names_and_patterns(pattern, name, expected):
    assert matches(RoutingRule(to="a/x", model=pattern), RequestTraits(model=name)) is expected


@every_row(
    ("rule", "traits", "expected"),
    [
        ({}, {}, True),
        ({"task": "background"}, {"kind": "background"}, True),
        ({"task": "background"}, {}, False),
        ({"task": "main"}, {"kind": "subagent"}, False),
        ({"task": ("background", "subagent")}, {"kind": "subagent"}, True),
        ({"task": "thinking"}, {"thinking": True}, True),
        ({"task": "images"}, {}, False),
        ({"task": "long_context"}, {"tokens": LONG_CONTEXT}, True),
        ({"task": "long_context"}, {"tokens": LONG_CONTEXT - 1}, False),
        ({"task": "long_context", "min_tokens": 9}, {"tokens": 9}, True),
        ({"min_tokens": 9}, {"tokens": 8}, False),
        ({"client": "codex"}, {"client": "codex"}, True),
        ({"client": "codex"}, {"client": "opencode"}, False),
        ({"client": "aider/*"}, {"user_agent": "Aider/1.2 x"}, True),
        ({"client": ("codex", "aider/*")}, {"client": "codex"}, True),
        ({"key": "ci-*"}, {"key": "ci-tests"}, True),
        ({"key": ("alice", "bob")}, {"key": "bob"}, True),
        ({"key": "ci-*"}, {"key": "alice"}, False),
        ({"key": "*"}, {"key": ""}, False),
        ({"client": "codex", "task": "main"}, {"client": "codex", "kind": "background"}, False),
    ],
)
def test_all_conditions_must_hold(rule, traits, expected):
    assert matches(RoutingRule(to="a/x", **rule), RequestTraits(**traits)) is expected


def test_the_traits_of_a_request():
    shot = Result("c", (Text("shot"), Image(data="aGk=", media_type="image/png")))
    seen = Request(model="m", turns=(Turn("user", (shot,)), Turn("user", (Text("what is it?"),))))
    assert traits_of(seen, {}).images
    assert not traits_of(Request(model="m"), {}).images
    for part in (Text("what is it?"), Result("c", (Text("shot"),)), Result("c")):
        assert not traits_of(Request(model="m", turns=(Turn("user", (part,)),)), {}).images
    thinking = {
        Think(): False,
        Think(mode="off", effort="high"): False,
        Think(mode="auto"): True,
        Think(mode="on", budget=5): True,
        Think(effort="minimal"): False,
        Think(effort="high"): True,
        Think(mode="on", effort="minimal"): False,
        Think(mode="auto", effort="none"): False,
        Think(mode="auto", effort="low"): True,
        Think(mode="on", budget=5, effort="minimal"): True,
    }
    for think, expected in thinking.items():
        asked = msgspec.structs.replace(seen, think=think)
        assert traits_of(asked, {}).thinking is expected, think


CHAT = [{"role": "user", "content": "x"}]
GEMINI = [{"role": "user", "parts": [{"text": "x"}]}]


@every_row(
    ("api", "body"),
    [
        ("anthropic", lambda effort: {"model": "m", "max_tokens": 9, "messages": CHAT, "output_config": {"effort": effort}}),
        ("openai_chat", lambda effort: {"model": "m", "messages": CHAT, "reasoning_effort": effort}),
        ("openai_responses", lambda effort: {"model": "m", "input": "x", "reasoning": {"effort": effort}}),
        ("openai_responses", lambda effort: {"model": "m", "input": "x", "reasoning": {"effort": effort, "summary": "auto"}}),
        ("gemini", lambda effort: {"contents": GEMINI, "generationConfig": {"thinkingConfig": {"thinkingLevel": effort}}}),
        ("gemini", lambda effort: {"contents": GEMINI, "generationConfig": {"thinkingConfig": {"thinkingLevel": effort, "includeThoughts": True}}}),
    ],
)  # fmt: skip
def test_an_effort_counts_as_thinking_alike_in_every_api(api, body):
    efforts = {"none": False, "minimal": False, "unheard-of": False, "low": True, "high": True}
    found = {
        effort: traits_of(
            codecs.load(api).decode_request(dump_bytes(body(effort)), model="m", stream=False), {}
        ).thinking
        for effort in efforts
    }
    assert found == efforts


# ── weights ──


def test_a_conversation_keeps_its_model_and_the_shares_are_right():
    targets = (WeightedModel("a/x", 3), WeightedModel("b/y", 1))
    chosen = {f"session {n}": weighted_choice(targets, f"session {n}") for n in range(4000)}
    assert chosen == {key: weighted_choice(targets[::-1], key) for key in chosen}
    assert 0.72 < Counter(chosen.values())["a/x"] / 4000 < 0.78


def test_a_further_model_moves_only_its_own_conversations():
    two = (WeightedModel("a/x"), WeightedModel("b/y"))
    three = (*two, WeightedModel("c/z"))
    for n in range(500):
        before, after = weighted_choice(two, str(n)), weighted_choice(three, str(n))
        assert after in {before, "c/z"}


# ── settings ──


def read(text: str, tmp_path):
    file = tmp_path / "toolbridge.toml"
    file.write_text(text)
    return config_file.read(config_file.ConfigSource(file, file.read_bytes()), env={})


def test_rules_are_read_in_their_order(tmp_path):
    text = """
        [[routes]]
        task = ["background", "subagent"]
        to = "haiku"
        [[routes]]
        model = "gpt-*"
        to = [{ model = "a/x", weight = 3 }, { model = "b/y" }]
    """
    first, second = read(text, tmp_path).routes
    assert first.tasks == ("background", "subagent")
    assert second.targets == (WeightedModel("a/x", 3), WeightedModel("b/y", 1))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[[routes]]\nto='a/x'\ntasks='main'", "routes.1: there is no setting `tasks`; did you mean `task`?"),
        ("[[routes]]\ntask='main'", "routes.1: object missing required field `to`"),
        ("[[routes]]\nto='a/x'\n[[routes]]\nto='a/x'\ntask='titles'", "routes.2.task: invalid enum value 'titles'"),
        ("[[routes]]\nto=[{model='a/x',weight=0}]", "weight"),
        ("[routes]\nto='a/x'", "routes"),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_named(text, error, tmp_path):
    with pytest.raises(ConfigError, match=error.replace("?", r"\?").replace("[", r"\[")):
        read(text, tmp_path)


@every_row(
    ("rule", "error"),
    [
        (RoutingRule(to=""), "`to` is empty"),
        (RoutingRule(to=()), "`to` is empty"),
        (RoutingRule(to=("ollama/a", WeightedModel("ollama/b"))), "either a chain"),
        (RoutingRule(to="olama/qwen3"), "did you mean 'ollama'"),
        (RoutingRule(to="ollama/qwen3", client="claude"), "claude-code, codex, gemini-cli"),
    ],
)
def test_a_rule_that_cannot_work_is_an_error_at_start(rule, error):
    with pytest.raises(ConfigError, match=error):
        check_rules((RoutingRule(to="ollama/a"), rule), ["ollama", "openai"])


@every_row(
    "rule",
    [
        RoutingRule(to="ollama/a"),
        RoutingRule(to=("ollama/a",)),
        RoutingRule(to=("ollama/a", "openai/b")),
        RoutingRule(to=(WeightedModel("ollama/a"), WeightedModel("openai/b"))),
        RoutingRule(to="ollama/a", client="codex"),
        RoutingRule(to="ollama/a", client="aider/*"),
    ],
)
def test_a_rule_that_can_work_is_accepted(rule):
    check_rules((rule,), ["ollama", "openai"])
