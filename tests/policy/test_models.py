"""Which model a name means."""

import pytest
from tests.tables import every_row

from toolbridge.core.errors import UnknownModel
from toolbridge.policy.models import (
    ModelFacts,
    check_key,
    is_claude_name,
    is_known,
    resolve,
    resolve_chain,
    split_address,
)

TABLE = {
    "claude-sonnet-4-5": "ollama/qwen3:8b",
    "Fast": "groq/llama-3.3",
    "opus": "openai/gpt-6",
    "haiku": "ollama/qwen3:0.6b",
    "fable": "anthropic/claude-fable-5",
}
LISTED = {
    "qwen3:8b": "ollama/qwen3:8b",
    "llama3.1:latest": "ollama/llama3.1:latest",
    "Kimi-K3": "groq/Kimi-K3",
    "claude-haiku-4-5": "ollama/claude-haiku-4-5",
    "mistral:latest": "ollama/mistral:latest",
}
USABLE = dict.fromkeys(["ollama", "groq", "openai", "anthropic", "mistral", "demo", "the"], "")
FACTS = ModelFacts(
    table=TABLE, listed=LISTED, providers=USABLE, default="the/default", fixed=True, owner="ollama"
)

MISSING = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "google": "GEMINI_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "ollama": "",
    "demo": "",
}
DEMO = {"toolbridge-demo": "demo/toolbridge-demo", "demo": "demo/toolbridge-demo"}
NOTHING = ModelFacts(listed=DEMO, providers=MISSING, demo="demo/toolbridge-demo", owner="ollama")
"""No configuration, no key, no Ollama."""
FOUND = ModelFacts(
    listed={**DEMO, "qwen3:8b": "ollama/qwen3:8b", "mistral:latest": "ollama/mistral:latest"},
    providers=MISSING,
    default="ollama/qwen3:8b",
    owner="ollama",
    fetches=True,
)
"""No configuration, no key, but an Ollama on this machine."""


@pytest.mark.req("PX-X8")
@every_row(
    ("name", "address"),
    [
        ("claude-sonnet-4-5", "ollama/qwen3:8b"),
        ("claude-haiku-4-5", "ollama/claude-haiku-4-5"),
        ("qwen3:8b", "ollama/qwen3:8b"),
        ("Claude-Sonnet-4-5", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5-20250929", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5@20250929", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5-2025-09-29", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5-latest", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5[1m]", "ollama/qwen3:8b"),
        ("claude-sonnet-4-5-20250929[1m]", "ollama/qwen3:8b"),
        ("fast", "groq/llama-3.3"),
        ("claude-fast", "groq/llama-3.3"),
        ("llama3.1", "ollama/llama3.1:latest"),
        ("claude-llama3.1", "ollama/llama3.1:latest"),
        ("kimi-k3", "groq/Kimi-K3"),
        ("claude-kimi-k3", "groq/Kimi-K3"),
        ("claude-opus-5-5", "openai/gpt-6"),
        ("us.anthropic.claude-opus-4-v1:0", "openai/gpt-6"),
        ("anthropic/claude-opus-4", "anthropic/claude-opus-4"),
        ("claude-3-5-haiku-latest", "ollama/qwen3:0.6b"),
        ("claude-fable-5-2", "anthropic/claude-fable-5"),
        ("magnum-opus", "the/default"),
        ("claude-sonnet-9", "the/default"),
        ("whatever", "the/default"),
        ("mistralai/Mistral-7B", "the/default"),
        ("", "the/default"),
    ],
)
def test_a_name_is_looked_up_in_one_order(name, address):
    assert resolve(name, FACTS) == address


@pytest.mark.req("PX-X8")
def test_an_exact_entry_goes_before_a_name_that_a_provider_lists():
    assert resolve("qwen3:8b", ModelFacts(table={"qwen3:8b": "x/y"}, listed=LISTED, providers={"x": ""})) == "x/y"  # fmt: skip


@every_row("name", ["mistral:latest", "mistral", "Mistral:latest", "claude-mistral"])
@every_row("facts", [FACTS, FOUND])
def test_a_listed_model_is_never_read_as_provider_and_model(name, facts):
    assert resolve(name, facts) == "ollama/mistral:latest"


@every_row("key", ["", "MISTRAL_API_KEY"])
@every_row("name", ["mistral:7b", "mistral:mistral-large"])
def test_another_tag_of_a_local_model_does_not_go_to_a_cloud(name, key):
    facts = ModelFacts(
        listed=LISTED, providers={"mistral": key}, default="ollama/qwen3:8b", fetches=True
    )
    with pytest.raises(UnknownModel, match="mistral:latest") as raised:
        resolve(name, facts)
    assert f"`ollama pull {name}`" in raised.value.problem.text


@every_row("name", ["mistral:7b", "mistral:latest", "deepseek:1.5b-q4_0", "mistral:8x7b"])
def test_a_name_with_a_tag_does_not_go_to_a_cloud_while_ollama_is_down(name):
    facts = ModelFacts(providers=dict.fromkeys(["mistral", "deepseek"], ""), demo="demo/d")
    with pytest.raises(UnknownModel):
        resolve(name, facts)


def test_provider_and_model_with_a_colon_count_where_no_model_has_that_name():
    assert resolve("groq:llama-3.3", FACTS) == "groq/llama-3.3"
    assert resolve("groq:openai/gpt-oss", FACTS) == "groq/openai/gpt-oss"


@every_row(
    "name",
    ["", "claude-sonnet-4-5", "claude-opus-5-5[1m]", "sonnet", "Opus", "haiku", "toolbridge-demo", "demo",
     "claude-toolbridge-demo", "demo/toolbridge-demo"],
)  # fmt: skip
def test_with_nothing_configured_claude_names_and_none_are_the_demos(name):
    assert resolve(name, NOTHING) == "demo/toolbridge-demo"


@every_row(
    ("name", "words"),
    [
        ("gpt-4o-mini", ["OPENAI_API_KEY", "--model demo"]),
        ("o3", ["OPENAI_API_KEY"]),
        ("text-embedding-3-small", ["OPENAI_API_KEY"]),
        ("gemini-3-pro", ["GEMINI_API_KEY"]),
        ("mistral-large-latest", ["MISTRAL_API_KEY"]),
        ("openai/gpt-4o", ["openai", "OPENAI_API_KEY is not set"]),
        ("mistral:7b", ["no model is called 'mistral:7b'"]),
        ("antropic/claude-sonnet-4-5", ["Did you mean anthropic/claude-sonnet-4-5?"]),
        ("zzz/none", ["no model is called 'zzz/none'", "toolbridge models"]),
        ("any-model", ["no model is called 'any-model'"]),
        ("toolbrige-demo", ["Did you mean toolbridge-demo?"]),
        ("openia", ["Did you mean openai/MODEL?"]),
        ("gpt-oss:20b", ["no model is called"]),
        ("x" * 100_000, ["no model is called"]),
    ],
)
def test_with_nothing_configured_any_other_name_is_unknown_with_a_way_out(name, words):
    with pytest.raises(UnknownModel) as raised:
        resolve(name, NOTHING)
    assert [word for word in words if word not in raised.value.problem.text] == []
    assert raised.value.problem.where == "model"
    assert len(raised.value.problem.text) < 1000


def test_the_nearest_names_are_a_value_too():
    with pytest.raises(UnknownModel) as raised:
        resolve("qwen3:9b", FOUND)
    assert raised.value.nearest == ("qwen3:8b",)
    assert "`ollama pull qwen3:9b`" in raised.value.problem.text


@every_row("name", ["claude-opus-5-5", "gpt-5.5-codex", "gemini-3-pro", "o4-mini", ""])
def test_agents_own_names_mean_the_ollama_that_was_found(name):
    assert resolve(name, FOUND) == "ollama/qwen3:8b"


@every_row(
    "name",
    [
        "text-embedding-3-small",
        "gemini-embedding-001",
        "gpt-oss:20b",
        "deepseek-r1:8b",
        "zzz/none",
        "claude-qwen3:9b",
        "qwen3",
    ],
)
def test_a_name_that_the_ollama_does_not_have_is_unknown(name):
    with pytest.raises(UnknownModel):
        resolve(name, FOUND)


@every_row(
    ("name", "facts", "address"),
    [
        ("gpt-4o-mini", NOTHING, "openai/gpt-4o-mini"),
        ("claude-opus-5-5", NOTHING, "anthropic/claude-opus-5-5"),
        ("gpt-4o-mini", FOUND, "openai/gpt-4o-mini"),
        # Claude Code always sends such names: a stray key must not take local prompts to a cloud.
        ("claude-opus-5-5", FOUND, "ollama/qwen3:8b"),
        ("gpt-4o-mini", FACTS, "the/default"),
    ],
)
def test_a_key_that_is_set_makes_its_provider_serve_its_own_names(name, facts, address):
    from msgspec.structs import replace

    keyed = replace(facts, providers={**facts.providers, "openai": "", "anthropic": ""})
    assert resolve(name, keyed) == address


def test_a_configured_default_does_not_hide_a_misspelt_provider():
    with pytest.raises(UnknownModel, match="Did you mean anthropic/claude-opus-5"):
        resolve("antropic/claude-opus-5", FACTS)


def test_an_entry_of_the_map_may_be_a_listed_name():
    facts = ModelFacts(table={"default": "mistral:latest", "x": "demo"}, listed={**LISTED, **DEMO},
                  providers=USABLE, default="mistral:latest", fixed=True)  # fmt: skip
    assert resolve("whatever", facts) == "ollama/mistral:latest"
    assert resolve("x", facts) == "demo/toolbridge-demo"


def test_a_name_of_an_ollama_that_does_not_answer_is_sent_there():
    assert (
        resolve("qwen3:8b", ModelFacts(providers={**MISSING, "box": ""}, silent="box"))
        == "box/qwen3:8b"
    )


def test_a_model_that_is_listed_twice_is_suggested_once():
    listed = {"dumb": "fk/dumb", "fk/dumb": "fk/dumb", "dub": "fs/dub"}
    with pytest.raises(UnknownModel) as raised:
        resolve("dumbb", ModelFacts(listed=listed, providers={"fk": "", "fs": ""}))
    assert raised.value.nearest == ("dumb", "dub")


def test_a_provider_that_lists_nothing_is_suggested():
    with pytest.raises(UnknownModel) as raised:
        resolve(
            "Qwen/Qwen3-8B", ModelFacts(providers={"box": ""}, configured=["box"], unlisted=["box"])
        )
    assert raised.value.nearest == ("box/Qwen/Qwen3-8B",)


@every_row(
    ("name", "is_claude"),
    [
        ("claude-opus-5", True),
        ("sonnet", True),
        ("anthropic.claude-3-haiku-v1:0", True),
        ("claude-qwen3:8b", False),
        ("antropic/claude-opus-5", False),
        ("sonnet-thing", False),
        ("claudette", False),
    ],
)
def test_claude_names(name, is_claude):
    assert is_claude_name(name) is is_claude


@every_row(
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


@every_row(
    ("name", "address"),
    [
        ("claude-opus-5-5[1m]", "anthropic/claude-opus-5-5"),
        ("anthropic/claude-opus-5-5[1M]", "anthropic/claude-opus-5-5"),
        ("models/gemini-3-pro", "google/gemini-3-pro"),
        ("models/qwen3:8b", "ollama/qwen3:8b"),
    ],
)
def test_marks_of_clients_are_no_part_of_a_models_name(name, address):
    usable = dict.fromkeys(MISSING, "")
    facts = ModelFacts(listed=LISTED, providers=usable, configured=["anthropic"], owner="ollama")
    assert resolve(name, facts) == address


def test_a_misspelt_provider_is_the_only_suggestion():
    facts = ModelFacts(listed=FOUND.listed, providers=MISSING, default="ollama/qwen3:8b",
                  owner="ollama", fetches=True, unlisted=["vllm"])  # fmt: skip
    with pytest.raises(UnknownModel) as caught:
        resolve("antropic/claude-opus-5", facts)
    assert caught.value.nearest == ("anthropic/claude-opus-5",)
    assert "ollama pull" not in str(caught.value)


CHAINS = ModelFacts(
    table={
        "default": ("the/default", "ollama/qwen3:8b"),
        "opus": ("anthropic/o", "groq/o"),
        "Fast": ("groq/f", "ollama/f"),
        "gpt-*": ("openai/g", "groq/g"),
        "gpt-5*": "groq/five",
        "keyless": ("mistral/m", "ollama/m"),
        "locked": ("mistral/m", "mistral/n"),
    },
    listed=LISTED,
    providers=USABLE | {"mistral": "MISTRAL_API_KEY"},
    default="the/default",
    fixed=True,
    owner="ollama",
)


@every_row(
    ("name", "chain"),
    [
        ("default", ("the/default", "ollama/qwen3:8b")),
        ("whatever", ("the/default", "ollama/qwen3:8b")),
        ("", ("the/default", "ollama/qwen3:8b")),
        ("claude-opus-5-20260101", ("anthropic/o", "groq/o")),
        ("fast-latest", ("groq/f", "ollama/f")),
        ("gpt-4o", ("openai/g", "groq/g")),
        ("GPT-5-mini", ("groq/five",)),
        ("models/gpt-4o", ("openai/g", "groq/g")),
        ("qwen3:8b", ("ollama/qwen3:8b",)),
        ("keyless", ("mistral/m", "ollama/m")),
        ("the/default", ("the/default", "ollama/qwen3:8b")),  # what the banner names to agents
        ("ollama/qwen3:8b", ("ollama/qwen3:8b",)),
        ("anthropic/o", ("anthropic/o",)),
    ],
)
def test_a_name_may_mean_a_chain(name, chain):
    assert resolve_chain(name, CHAINS) == chain


def test_the_first_address_of_a_chain_is_the_first_that_has_its_key():
    assert resolve("keyless", CHAINS) == "ollama/m"
    with pytest.raises(UnknownModel, match="MISTRAL_API_KEY"):
        resolve("locked", CHAINS)
    with pytest.raises(UnknownModel, match="MISTRAL_API_KEY"):
        check_key("mistral/m", CHAINS)
    check_key("ollama/m", CHAINS)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("quick", True),
        ("claude-haiku-4-5", True),
        ("qwen3:8b", True),
        ("models/qwen3:8b", True),
        ("box/any[1m]", True),
        ("", True),
        ("gpt-5", False),
        ("qwen3:9b", False),
    ],
)
def test_a_pattern_and_the_default_do_not_know_a_name(name, known):
    """A server may list it since a moment, and goes before them."""
    table = {"default": "box/d", "quick": "box/q", "haiku": "box/h", "gpt-*": "box/g"}
    facts = ModelFacts(table=table, listed={"qwen3:8b": "b/qwen3:8b"}, providers={"box": ""}, default="box/d", fixed=True)  # fmt: skip
    assert is_known(name, facts) is known
