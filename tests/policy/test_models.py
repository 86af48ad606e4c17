"""Which model a name means."""

import pytest

from toolbridge.core.errors import UnknownModel
from toolbridge.policy.models import resolve, split_address

TABLE = {
    "claude-sonnet-4-5": "ollama/qwen3:8b",
    "Fast": "groq/llama-3.3",
    "opus": "openai/gpt-6",
    "haiku": "ollama/qwen3:0.6b",
    "fable": "anthropic/claude-fable-5",
}
KNOWN = ["qwen3:8b", "llama3.1:latest", "Kimi-K3", "claude-haiku-4-5"]


@pytest.mark.req("PX-X8")
@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("claude-sonnet-4-5", "ollama/qwen3:8b"),
        ("claude-haiku-4-5", "claude-haiku-4-5"),
        ("qwen3:8b", "qwen3:8b"),
        ("Claude-Sonnet-4-5", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5-20250929", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5@20250929", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5-2025-09-29", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5-latest", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5[1m]", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5-20250929[1m]", "ollama/qwen3:8b"),
        ("fast", "groq/llama-3.3"),
        ("claude-fast", "groq/llama-3.3"),
        ("llama3.1", "llama3.1:latest"),
        ("kimi-k3", "Kimi-K3"),
        ("claude-kimi-k3", "Kimi-K3"),
        ("claude-opus-5-5", "openai/gpt-6"),
        ("anthropic/Claude-Opus-4", "openai/gpt-6"),
        ("claude-3-5-haiku-latest", "ollama/qwen3:0.6b"),
        ("claude-fable-5-2", "anthropic/claude-fable-5"),
        ("claude-sonnet-9", "the/default"),
        ("whatever", "the/default"),
    ],
)
def test_a_name_is_looked_up_exactly_then_known_then_alias_then_tier_then_default(name, address):
    assert resolve(name, TABLE, KNOWN, "the/default") == address


@pytest.mark.req("PX-X8")
def test_an_exact_entry_goes_before_a_name_that_a_provider_knows():
    assert resolve("qwen3:8b", {"qwen3:8b": "x/y"}, KNOWN) == "x/y"


def test_what_is_known_may_be_a_question():
    assert resolve("a:b", {}, lambda name: name == "a:b") == "a:b"
    with pytest.raises(UnknownModel):
        resolve("a:c", {}, lambda name: name == "a:b")


def test_an_unknown_name_is_refused_with_near_names_and_a_way_out():
    with pytest.raises(UnknownModel) as raised:
        resolve("qwen3:9b", {}, KNOWN)
    assert "qwen3:8b" in raised.value.problem.text
    assert "toolbridge.toml" in raised.value.problem.text
    assert "Kimi-K3" not in raised.value.problem.text
    with pytest.raises(UnknownModel, match=r"^model: no model is called 'zzz'\. Name one"):
        resolve("zzz", {}, ())


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("groq/llama-3.3", ("groq", "llama-3.3")),
        ("groq,llama-3.3", ("groq", "llama-3.3")),
        ("groq@llama-3.3", ("groq", "llama-3.3")),
        ("groq:llama-3.3", ("groq", "llama-3.3")),
        ("groq:openai/gpt-oss", ("groq", "openai/gpt-oss")),
        ("router/groq/llama", ("router", "groq/llama")),
        ("ollama/qwen3:8b", ("ollama", "qwen3:8b")),
        ("qwen3:8b", ("", "qwen3:8b")),
        ("hf.co/a/b:Q4", ("", "hf.co/a/b:Q4")),
        ("groq/", ("", "groq/")),
        ("groq", ("", "groq")),
    ],
)
def test_an_address_names_a_provider_only_if_there_is_one(name, address):
    assert split_address(name, {"groq", "ollama", "router"}) == address


def test_a_provider_may_be_called_like_a_model():
    assert split_address("qwen3:8b", {"qwen3"}) == ("qwen3", "8b")
