"""`toolbridge import`: files of other gateways, what is carried, and what is noted."""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from tests.tables import every_row

from toolbridge import config_file
from toolbridge.cli import main
from toolbridge.core.errors import ConfigError
from toolbridge.importers import import_source, read_source, recognize
from toolbridge.importers.draft import ConfigDraft
from toolbridge.importers.write_toml import write_toml
from toolbridge.routing.providers import find_providers

SECRET = "sk-live-0123456789abcdef"

LITELLM = f"""
model_list:
  - model_name: big
    litellm_params:
      model: openai/gpt-5.5
      api_key: os.environ/OPENAI_API_KEY
      weight: 3
  - model_name: big
    litellm_params:
      model: azure/my-deployment
      api_base: https://example-eu.openai.azure.com
      api_key: os.environ/AZURE_KEY_EU
      api_version: "2025-01-01"
      weight: 1
  - model_name: small
    litellm_params:
      model: openai/qwen3
      api_base: http://localhost:8001/v1
      api_key: {SECRET}
      rpm: 60
      temperature: 0.2
    model_info:
      max_input_tokens: 32768
      supports_vision: false
      input_cost_per_token: 0.0000015
      team_id: red
  - model_name: fast
    litellm_params: {{model: groq/llama-x, api_key: os.environ/GROQ_API_KEY}}
  - model_name: fast-2
    litellm_params: {{model: groq/llama-y, api_key: os.environ/GROQ_KEY_TWO}}
  - model_name: local
    litellm_params: {{model: ollama_chat/qwen3:8b, api_base: "http://localhost:11434"}}
  - model_name: cloud
    litellm_params: {{model: bedrock/anthropic.claude-x, aws_region_name: eu-west-1, aws_secret_access_key: {SECRET}}}
  - model_name: strange
    litellm_params: {{model: watsonx/granite}}
  - model_name: "anthropic/*"
    litellm_params: {{model: "anthropic/*"}}
router_settings:
  model_group_alias: {{gpt-4: big, hidden-one: {{model: small, hidden: true}}}}
  routing_strategy: latency-based-routing
  fallbacks: [{{fast: [small, local]}}, {{big: [small]}}]
  redis_password: {SECRET}
litellm_settings:
  drop_params: true
  context_window_fallbacks: [{{small: [big]}}]
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
  database_url: postgresql://user:{SECRET}@db/x
environment_variables: {{OTHER_KEY: {SECRET}}}
"""

CCR = f"""
{{
  // the file of claude-code-router is JSON5
  "APIKEY": "{SECRET}",
  "PORT": 3460,
  "LOG": true,
  "PROXY_URL": "http://127.0.0.1:7890",
  "Providers": [
    {{
      "name": "openrouter",
      "api_base_url": "https://openrouter.ai/api/v1/chat/completions",
      "api_key": "$OPENROUTER_API_KEY",
      "models": ["google/gemini-x"],
      "transformer": {{"use": ["openrouter"]}},
    }},
    {{
      "name": "deep",
      "api_base_url": "https://api.deepseek.com/chat/completions",
      "api_key": "{SECRET}",
      "models": ["deepseek-chat", "deepseek-reasoner"],
      "transformer": {{"use": ["deepseek", ["maxtoken", {{"max_tokens": 8192}}]], "deepseek-chat": {{"use": ["tooluse"]}}}},
    }},
    {{"name": "gemini", "api_base_url": "https://generativelanguage.googleapis.com/v1beta/models/", "api_key": "${{GEMINI_API_KEY}}", "models": ["gemini-x"], "transformer": {{"use": ["gemini"]}}}},
    {{"name": "mine", "api_base_url": "http://10.0.0.5:9000/v1/messages", "api_key": "x", "models": ["m"], "transformer": {{"use": ["Anthropic", "my-own"]}}}},
    {{"name": "ollama", "api_base_url": "http://localhost:11434/v1/chat/completions", "api_key": "ollama", "models": ["qwen3:8b"]}},
  ],
  "Router": {{
    "default": "deep,deepseek-chat",
    "background": "ollama,qwen3:8b",
    "think": "deep,deepseek-reasoner",
    "longContext": "openrouter,google/gemini-x",
    "longContextThreshold": 50000,
    "webSearch": "gemini,gemini-x",
    "image": "mine,m",
  }},
  "CUSTOM_ROUTER_PATH": "/home/me/router.js",
}}
"""

PORTKEY = {
    "strategy": {
        "mode": "conditional",
        "conditions": [
            {"query": {"params.model": {"$eq": "smart"}}, "then": "shared"},
            {"query": {"params.model": {"$in": ["a", "b"]}}, "then": "safe"},
            {"query": {"metadata.plan": {"$eq": "paid"}}, "then": "safe"},
        ],
        "default": "safe",
    },
    "targets": [
        {
            "name": "shared",
            "strategy": {"mode": "loadbalance"},
            "targets": [
                {"provider": "openai", "api_key": SECRET, "weight": 0.7, "override_params": {"model": "gpt-5.5"}},
                {"virtual_key": "anthropic-prod-1", "weight": 0.3, "override_params": {"model": "claude-x", "temperature": 0}},
            ],
        },
        {
            "name": "safe",
            "strategy": {"mode": "fallback", "on_status_codes": [429]},
            "targets": [
                {"provider": "together-ai", "override_params": {"model": "llama-x"}},
                {"provider": "@groq-eu", "override_params": {"model": "llama-y"}},
                {"provider": "openai"},
            ],
        },
    ],
    "cache": {"mode": "simple"},
    "retry": {"attempts": 3},
}  # fmt: skip


def imported(text: str, name: str = "config.json"):
    """Return the gateway, the tables of the TOML, its text and the notes by their places."""
    gateway, draft = import_source(read_source(text, name))
    toml = write_toml(draft, "x")
    return gateway, tomllib.loads(toml), toml, {note.where: note.text for note in draft.notes}


def check(toml: str) -> None:
    """Load the file as a program would."""
    source = config_file.ConfigSource(Path("toolbridge.toml"), toml.encode())
    find_providers(config_file.read(source, env={}), {})


def test_litellm():
    gateway, tables, toml, notes = imported(LITELLM, "config.yaml")
    assert gateway == "litellm"
    assert tables["map"] == {
        "big": ["openai/gpt-5.5", "local-8001/qwen3"],
        "big-1": ["openai/gpt-5.5", "local-8001/qwen3"],
        "big-2": ["azure/my-deployment", "local-8001/qwen3"],
        "small": "local-8001/qwen3",
        "fast": ["groq/llama-x", "local-8001/qwen3", "ollama/qwen3:8b"],
        "fast-2": "groq-2/llama-y",
        "local": "ollama/qwen3:8b",
        "cloud": "bedrock/anthropic.claude-x",
        "gpt-4": "big",
        "hidden-one": "small",
    }
    shared = [{"model": "big-1", "weight": 3}, {"model": "big-2", "weight": 1}]
    assert tables["routes"] == [{"model": ["big", "gpt-4"], "to": shared}]
    assert tables["key"] == "$LITELLM_MASTER_KEY"
    found = tables["providers"]
    assert found["azure"] == {
        "resource": "example-eu", "api_version": "2025-01-01", "key": "$AZURE_KEY_EU",
    }  # fmt: skip
    assert found["local-8001"] == {
        "api": "openai_chat", "url": "http://localhost:8001/v1", "key": "$LOCAL_8001_API_KEY",
    }  # fmt: skip
    assert found["groq-2"]["key"] == "$GROQ_KEY_TWO"
    assert found["groq-2"]["url"] == "https://api.groq.com/openai/v1"
    assert found["bedrock"] == {"region": "eu-west-1"}
    assert not {"openai", "groq", "ollama"} & found.keys()  # built in, with their own variables
    small = tables["models"]["local-8001/qwen3"]
    assert small == {"window": 32768, "vision": False, "rates": {"input": 1.5}}
    at = "model_list.2.litellm_params"
    assert "LOCAL_8001_API_KEY" in notes[f"{at}.api_key"]
    assert {
        f"{at}.temperature", f"{at}.rpm", "model_list.2.model_info.team_id",
        "model_list.6.litellm_params.aws_secret_access_key", "model_list.7.litellm_params.model",
        "model_list.8.litellm_params.model", "router_settings.routing_strategy",
        "router_settings.redis_password",
        "litellm_settings.context_window_fallbacks", "general_settings.database_url",
        "environment_variables",
    } <= notes.keys()  # fmt: skip
    assert SECRET not in toml + str(notes)
    check(toml)


def test_a_field_beside_the_deployment_of_litellm_is_noted():
    entry = {"model_name": "a", "litellm_params": {"model": "openai/gpt-5.5"}, "team": "blue"}
    *_, notes = imported(json.dumps({"model_list": [entry]}), "config.yaml")
    assert notes == {"model_list.0.team": "has no equivalent; not carried"}


def litellm(*models, **settings):
    """Return the tables and the notes of deployments `(name, params)` with router settings."""
    entries = [{"model_name": name, "litellm_params": params} for name, params in models]
    source = {"model_list": entries, "router_settings": settings}
    _, tables, toml, notes = imported(json.dumps(source), "config.yaml")
    check(toml)
    return tables, notes


def test_an_alias_of_several_deployments_of_litellm_shares_them_too():
    two = [("big", {"model": "openai/a"}), ("big", {"model": "groq/b", "rpm": 3})]
    tables, notes = litellm(*two, model_group_alias={"gpt-4": "big", "x": "big", "lost": "none"})
    to = [{"model": "openai/a", "weight": 1}, {"model": "groq/b", "weight": 3}]
    assert tables["routes"] == [{"model": ["big", "gpt-4", "x"], "to": to}]
    assert tables["map"] == {"big": "openai/a", "gpt-4": "big", "x": "big"}
    assert notes == {
        "model_list.1.litellm_params.rpm": "is the weight of the deployment; the limit itself was not carried",
        "router_settings.model_group_alias.lost": "there is no model 'none' in the new file; not carried",
    }  # fmt: skip


def test_a_weight_of_litellm_comes_before_its_limit():
    two = [("big", {"model": "openai/a", "weight": 2, "rpm": 9}), ("big", {"model": "groq/b", "weight": -1})]  # fmt: skip
    tables, notes = litellm(*two)
    to = [{"model": "openai/a", "weight": 2}, {"model": "groq/b", "weight": 1}]
    assert tables["routes"] == [{"model": "big", "to": to}]
    assert notes == {"model_list.0.litellm_params.rpm": "has no equivalent; not carried"}


def test_fallbacks_from_and_to_several_deployments_of_litellm():
    two = [("big", {"model": "openai/a", "weight": 2}), ("big", {"model": "groq/b"})]
    small = ("small", {"model": "openai/s"})
    tables, notes = litellm(*two, small, fallbacks=[{"big": ["small", "gone"]}, {"gone": ["big"]}])
    assert tables["map"] == {
        "big": ["openai/a", "openai/s"], "small": "openai/s",
        "big-1": ["openai/a", "openai/s"], "big-2": ["groq/b", "openai/s"],
    }  # fmt: skip
    to = [{"model": "big-1", "weight": 2}, {"model": "big-2", "weight": 1}]
    assert tables["routes"] == [{"model": "big", "to": to}]
    assert notes == {
        "router_settings.fallbacks.0.big": "there is no model 'gone' in the new file; this one was not carried",
        "router_settings.fallbacks.1.gone": "there is no model 'gone' in the new file; not carried",
    }  # fmt: skip
    tables, notes = litellm(*two, small, fallbacks=[{"small": ["big"]}])
    assert tables["map"]["small"] == ["openai/s", "openai/a", "groq/b"]
    assert "without their weights" in notes["router_settings.fallbacks.0.small"]
    tables, notes = litellm(small, fallbacks=[{"small": ["gemini/x"]}])
    assert (tables["map"], notes) == ({"small": ["openai/s", "google/x"]}, {})


@every_row(
    ("model", "address"),
    [
        ("text-embedding-3-small", "openai/text-embedding-3-small"),
        ("chatgpt-4o-latest", "openai/chatgpt-4o-latest"),
        ("ft:gpt-4o:org", "openai/ft:gpt-4o:org"),
        ("claude-x", "anthropic/claude-x"),
        ("command-r", "cohere/command-r"),
    ],
)
def test_a_name_of_litellm_without_a_provider(model, address):
    tables, notes = litellm(("a", {"model": model}))
    assert (tables["map"], notes) == ({"a": address}, {})


def test_the_provider_of_litellm_may_be_a_field_of_its_own():
    tables, notes = litellm(("a", {"model": "org/llama", "custom_llm_provider": "groq"}))
    assert (tables["map"], notes) == ({"a": "groq/org/llama"}, {})


def deployed(**params):
    """Return the providers and the notes of one deployment of LiteLLM."""
    entry = {"model_name": "a", "litellm_params": params}
    _, tables, toml, notes = imported(json.dumps({"model_list": [entry]}), "config.yaml")
    check(toml)
    return tables.get("providers", {}), notes


@every_row(
    "key",
    ["none", "None", "EMPTY", "", " ", "dummy", "sk-xxx", "sk-XXXXXXXX", "sk-1234", "xxxx", "no-key",
     "not-needed", "NA", "fake-key", "sk-no-key-required", "your-api-key", "****", "dummy_token"],
)  # fmt: skip
def test_a_placeholder_of_an_own_server_is_no_key(key):
    url = "http://10.1.1.2:8000/v1"
    found, notes = deployed(model="openai/m", api_base=url, api_key=key)
    assert found == {"10-1-1-2-8000": {"api": "openai_chat", "url": url}}
    assert all("placeholder" in text for text in notes.values())
    found, _ = deployed(model="hosted_vllm/m", api_base=url, api_key=key)
    assert "key" not in found["vllm"]


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("http://10.1.1.2:8000/v1", "SERVER_10_1_1_2_8000_API_KEY"),
        ("http://[fd00::1]:8000/v1", "FD00__1_8000_API_KEY"),
        ("http://müller.example/v1", "M_LLER_EXAMPLE_API_KEY"),
    ],
)
def test_the_variable_of_a_key_has_a_name_that_a_shell_can_set(url, variable):
    found, _ = deployed(model="openai/m", api_base=url, api_key=SECRET)
    assert found.popitem()[1]["key"] == f"${variable}"


def test_a_placeholder_for_a_vendor_still_names_its_variable():
    found, notes = deployed(model="anthropic/m", api_key="sk-xxx")
    assert found == {}
    assert "set it as ANTHROPIC_API_KEY" in notes["model_list.0.litellm_params.api_key"]


def test_claude_code_router():
    gateway, tables, toml, notes = imported(CCR)
    assert gateway == "claude-code-router"
    assert tables["map"] == {"default": "deep/deepseek-chat", "haiku": "ollama/qwen3:8b"}
    assert tables["routes"] == [
        {"task": "images", "to": "mine/m"},
        {"task": "long_context", "to": "openrouter/google/gemini-x", "min_tokens": 50000},
        {"task": "background", "to": "ollama/qwen3:8b"},
        {"task": "thinking", "to": "deep/deepseek-reasoner"},
    ]
    assert tables["port"] == 3460
    found = tables["providers"]
    assert found.keys() == {"deep", "gemini", "mine"}  # the others are built in by these names
    assert found["mine"] == {"api": "anthropic", "url": "http://10.0.0.5:9000"}
    assert found["gemini"] == {
        "api": "gemini", "url": "https://generativelanguage.googleapis.com", "key": "$GEMINI_API_KEY",
    }  # fmt: skip
    assert found["deep"]["quirks"]["thinking_field"] == "reasoning_content"
    assert tables["models"]["deep/deepseek-chat"] == {"max_output": 8192}
    assert notes.keys() == {
        "APIKEY", "CUSTOM_ROUTER_PATH", "PROXY_URL", "Providers.1.api_key", "Providers.3.api_key",
        "Providers.3.transformer.use.1", "Providers.4.api_key", "Router.webSearch",
    }  # fmt: skip
    assert "DEEPSEEK_API_KEY" in notes["Providers.1.api_key"]
    assert SECRET not in toml + str(notes)
    check(toml)


def test_the_names_of_providers_are_kept_and_every_other_name_is_noted():
    google = "https://generativelanguage.googleapis.com/v1beta/models/"
    local = "http://localhost:11434/v1/chat/completions"
    names = (("gemini", google), ("my/own, one", local), ("gemini", google.replace("v1beta", "v1")))
    entries = [{"name": name, "api_base_url": url, "models": ["m"]} for name, url in names]
    _, tables, toml, notes = imported(json.dumps({"Providers": entries}))
    assert tables["providers"].keys() == {"gemini", "my-own-one", "gemini-2"}
    assert tables["providers"]["my-own-one"]["constraint"] == "json_schema"
    assert notes == {
        "Providers.1.name": "the provider 'my/own, one' is now named 'my-own-one'",
        "Providers.2.name": "the provider 'gemini' is now named 'gemini-2'",
    }
    check(toml)


def test_portkey():
    gateway, tables, toml, notes = imported(json.dumps(PORTKEY))
    assert gateway == "portkey"
    shared = [
        {"model": "openai/gpt-5.5", "weight": 0.7},
        {"model": "anthropic/claude-x", "weight": 0.3},
    ]
    assert tables["routes"] == [
        {"model": "smart", "to": shared},
        {"model": ["a", "b"], "to": "safe"},
    ]
    chain = ["together/llama-x", "groq/llama-y"]
    assert tables["map"] == {"safe": chain, "default": chain}
    assert {
        "cache", "retry", "strategy.conditions.2.query", "targets.0.targets.0.api_key",
        "targets.0.targets.1.virtual_key", "targets.0.targets.1.override_params.temperature",
        "targets.1.strategy.on_status_codes", "targets.1.targets.2.override_params.model",
    } <= notes.keys()  # fmt: skip
    assert SECRET not in toml + str(notes)
    check(toml)


@every_row(
    ("config", "expected"),
    [
        (
            {"provider": "openai", "api_key": "k", "override_params": {"model": "gpt-5.5"}},
            {"map": {"default": "openai/gpt-5.5"}},
        ),
        (
            {"strategy": {"mode": "loadbalance"}, "targets": [
                {"override_params": {"model": "@openai/gpt-5.5"}},
                {"provider": "x", "custom_host": "https://llm.example.com/v1", "weight": 2,
                 "override_params": {"model": "m"}},
            ]},
            {"routes": [{"to": [{"model": "openai/gpt-5.5", "weight": 1}, {"model": "x/m", "weight": 2}]}]},
        ),
        (
            {"strategy": {"mode": "fallback"}, "targets": [
                {"strategy": {"mode": "loadbalance"}, "targets": [
                    {"provider": "openai", "override_params": {"model": "a"}}]},
                {"provider": "groq", "override_params": {"model": "b"}},
            ]},
            {"map": {"default": ["openai/a", "groq/b"]}},
        ),
        (
            {"strategy": {"mode": "fallback"}, "targets": [
                {"strategy": {"mode": "loadbalance"}, "targets": [
                    {"provider": "openai", "weight": 0.7, "override_params": {"model": "a"}},
                    {"strategy": {"mode": "loadbalance"}, "weight": 0.3, "targets": [
                        {"provider": "openai", "override_params": {"model": "c"}},
                        {"provider": "openai", "weight": 2, "override_params": {"model": "d"}}]}]},
                {"provider": "groq", "override_params": {"model": "b"}},
            ]},
            {
                "map": {"fallback-1": ["openai/a", "groq/b"], "fallback-2": ["openai/c", "groq/b"],
                        "fallback-3": ["openai/d", "groq/b"]},
                "routes": [{"to": [{"model": "fallback-1", "weight": 0.7},
                                   {"model": "fallback-2", "weight": 0.1},
                                   {"model": "fallback-3", "weight": 0.2}]}],
            },
        ),
    ],
)  # fmt: skip
def test_strategies_of_portkey(config, expected):
    _, draft = import_source(config, "portkey")
    tables = tomllib.loads(write_toml(draft, "x"))
    assert {name: tables[name] for name in expected} == expected


def balanced(*weights, provider="openai"):
    targets = [
        {"provider": provider, "weight": weight, "override_params": {"model": f"m{n}"}}
        for n, weight in enumerate(weights)
    ]
    return {"strategy": {"mode": "loadbalance"}, "targets": targets}


def test_a_target_of_portkey_without_a_weight_above_zero_gets_nothing():
    _, draft = import_source(balanced(2, 0, -1, "3", None, 0.5), "portkey")
    (route,) = tomllib.loads(write_toml(draft, "x"))["routes"]
    assert route["to"] == [
        {"model": "openai/m0", "weight": 2},
        {"model": "openai/m5", "weight": 0.5},
    ]


@pytest.mark.parametrize(("second", "chains"), [(4, 32), (5, 1)])
def test_too_many_combinations_of_portkey_are_noted(second, chains):
    parts = [balanced(*[1] * 8), balanced(*[1] * second, provider="groq")]
    config = {"strategy": {"mode": "fallback"}, "targets": parts}
    _, draft = import_source(config, "portkey")
    assert len(draft.map) == chains
    noted = [note for note in draft.notes if "more than 32 combinations" in str(note)]
    assert len(noted) == (chains == 1)


def test_conditions_of_portkey_that_cannot_be_carried_say_why():
    target = {"name": "t", "provider": "openai", "override_params": {"model": "a"}}
    conditions = [
        {"query": {"params.model": {"$regex": "gpt.*"}}, "then": "t"},
        {"query": {"params.model": {"$eq": "a"}}, "then": "gone"},
    ]
    source = {"strategy": {"mode": "conditional", "conditions": conditions}, "targets": [target]}
    *_, notes = imported(json.dumps(source))
    assert notes == {
        "strategy.conditions.0.query": "only `$eq` and `$in` of `params.model` can be carried; not carried",
        "strategy.conditions.1.then": "there is no target 'gone'; not carried",
    }  # fmt: skip


@every_row(
    "source",
    [
        {"model_list": [None, {}, {"litellm_params": {"model": 5}}, {"model_name": 5}]},
        {"Providers": [{}, {"name": 5, "transformer": {"use": 3, "x": 1}}], "Router": {"think": 5}},
        {"Router": {"default": "no comma"}, "fallback": {"default": "x"}},
        {"targets": [{"targets": []}], "strategy": {"mode": "new"}},
        {"strategy": {"mode": "conditional", "conditions": [{"query": {}}]}, "targets": [{}]},
    ],
)
def test_a_file_of_another_shape_never_crashes(source):
    _, draft = import_source(source)
    check(write_toml(draft, "x"))


@every_row(
    ("source", "place"),
    [
        ({"model_list": "hello"}, "model_list: must be a list of tables, and is a text"),
        ({"model_list": [], "router_settings": []}, "router_settings: must be a table, and is a list"),
        ({"router_settings": {"fallbacks": {}}}, "router_settings.fallbacks: must be a list"),
        ({"Providers": {"a": {}}}, "Providers: must be a list of tables, and is a table"),
        ({"Providers": [{"name": 3}], "Router": "x"}, "Router: must be a table, and is a text"),
        ({"targets": 1}, "targets: must be a list of tables, and is a number"),
        ({"strategy": "fallback", "targets": []}, "strategy: must be a table, and is a text"),
    ],
)  # fmt: skip
def test_a_broken_file_is_an_error_that_names_the_place(source, place):
    with pytest.raises(ConfigError, match=f"c.json: {place}"):
        import_source(source, name="c.json")


@pytest.mark.parametrize(
    ("source", "places"),
    [
        (
            {"model_list": [None, {"model_name": 3, "litellm_params": {"model": "openai/a"}},
                            {"model_name": "a", "litellm_params": {"model": 7}}]},
            {"model_list.0", "model_list.1.model_name", "model_list.2.litellm_params.model"},
        ),
        (
            {"Providers": ["x", {"name": 3, "api_base_url": "http://a"}, {"name": "a"}],
             "Router": {"default": "no comma", "think": 5, "image": "gone,m"}},
            {"Providers.0", "Providers.1.name", "Providers.2.api_base_url", "Router.default",
             "Router.think", "Router.image"},
        ),
        (
            {"strategy": {"mode": "fallback"}, "targets": ["x", {"provider": "openai"}]},
            {"targets.0", "targets.1.override_params.model"},
        ),
    ],
)  # fmt: skip
def test_a_broken_entry_is_noted_with_its_place_and_not_carried(source, places):
    _, draft = import_source(source)
    assert {note.where for note in draft.notes} == places
    assert not draft


def test_a_file_that_belongs_to_nobody_is_an_error():
    with pytest.raises(ConfigError, match="--from"):
        recognize({"providers": {}})
    with pytest.raises(ConfigError, match="is not JSON"):
        read_source('{"Providers": [', "config.json")
    with pytest.raises(ConfigError, match="no table at the top"):
        read_source("[1]", "config.json")
    with pytest.raises(ConfigError, match="not valid YAML"):
        read_source("a: [", "config.yaml")


def test_yaml_without_its_reader_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[import\]'"):
        read_source("a: 1", "config.yaml")


def test_texts_are_quoted():
    draft = ConfigDraft()
    draft.map = {'a "b" c': ("x/ü\n\x7f\\",)}
    assert tomllib.loads(write_toml(draft, "x")) == {"map": {'a "b" c': "x/ü\n\x7f\\"}}


# ── the command ──


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config.json").write_text(CCR)
    return tmp_path


def test_the_command_prints_a_file_that_can_be_used(here, capsys):
    assert main(["import", "config.json"]) == 0
    out, err = capsys.readouterr()
    assert tomllib.loads(out)["map"]["default"] == "deep/deepseek-chat"
    assert "note  Router.webSearch: " in err
    assert "8 notes" in err
    assert SECRET not in out + err


def test_the_command_writes_and_allows_the_file(here, capsys):
    assert main(["import", "config.json", "--write"]) == 0
    assert config_file.load(env={"XDG_STATE_HOME": str(here / "state")}).port == 3460
    assert main(["import", "config.json", "--write"]) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["import", "config.json", "--write", "--force"]) == 0


def test_the_command_rejects_what_it_cannot_read(here, capsys):
    (here / "other.json").write_text("{}")
    assert main(["import", "other.json"]) == 1
    assert "other.json is not a file of litellm, claude-code-router" in capsys.readouterr().err
    (here / "empty.json").write_text('{"Providers": [{"name": 3}]}')
    assert main(["import", "empty.json", "--write"]) == 1
    err = capsys.readouterr().err
    assert "note  Providers.0.name: must be a text" in err
    assert "empty.json has no provider and no model that can be carried" in err
    assert not (here / "toolbridge.toml").exists()
    assert main(["import", "missing.json"]) == 1
    (here / "latin.json").write_bytes(b"\xff")
    assert main(["import", "latin.json"]) == 1
    assert "UTF-8" in capsys.readouterr().err
