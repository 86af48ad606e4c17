"""Profiles, and what the environment says about them."""

import pytest
from tests.tables import every_row

from toolbridge.config import Config
from toolbridge.core.errors import ConfigError
from toolbridge.routing.providers import find_providers
from toolbridge.runs.profiles import read_defaults, read_profiles
from toolbridge.runs.request import read_request

KEY = {"GROQ_API_KEY": "k"}


@pytest.mark.req("TF-36")
def test_the_demo_profile_is_steady():
    order = read_request({"prompt": "x", "profile": "demo"}, read_profiles({}, {}))
    assert (order.temperature, order.seed) == (0.2, 42)
    assert order.max_tokens is not None
    assert order.max_tokens <= 384
    assert order.tools == ("places.search", "bookings.create")


@pytest.mark.req("TF-37", "TF-38", "TF-39")
@every_row(
    ("profile", "env", "model"),
    [
        ("demo", {}, ""),
        ("demo", KEY, "groq/gpt-oss-20b"),
        ("demo", {**KEY, "MODEL_ID": "openai/gpt-oss-20b"}, "groq/openai/gpt-oss-20b"),
        ("demo", {"MODEL_ID": "ollama/qwen3:8b"}, "ollama/qwen3:8b"),
        ("dev", {}, "ollama/llama-3.1-8b-instruct"),
        ("dev", {"DEV_MODEL_ID": "ollama/tiny"}, "ollama/tiny"),
        ("dev", {"VLLM_BASE_URL": "http://127.0.0.1:1"}, "vllm/llama-3.1-8b-instruct"),
        ("dev", {"VLLM_BASE_URL": "http://127.0.0.1:1", "DEV_MODEL_ID": "meta/l"}, "vllm/meta/l"),
    ],
)
def test_the_environment_names_a_profiles_model(profile, env, model):
    order = read_request({"prompt": "x", "profile": profile}, read_profiles({}, env))
    assert order.model == model


@pytest.mark.req("TF-38")
def test_the_environment_says_where_groq_is():
    places = find_providers(Config(), {"GROQ_BASE_URL": "http://127.0.0.1:9/v1"})
    assert places["groq"].url == "http://127.0.0.1:9/v1"
    assert places["groq"].key == "$GROQ_API_KEY"


@pytest.mark.req("TF-25", "TF-26", "TF-28", "TF-38")
def test_times_and_retries_come_from_the_environment_unless_the_request_says():
    env = {"FRAME_TIMEOUT_MS": "20", "TOOL_TIMEOUT_MS": "30", "REPAIR_RETRIES": "0"}
    order = read_request({"prompt": "x", "tool_timeout_ms": 5}, {}, read_defaults(env))
    assert (order.frame_timeout_ms, order.tool_timeout_ms, order.repair_retries) == (20, 5, 0)
    plain = read_request({"prompt": "x"}, {})
    assert (plain.frame_timeout_ms, plain.tool_timeout_ms, plain.repair_retries) == (15000, 8000, 1)


def test_a_number_that_is_none_is_refused_by_name():
    with pytest.raises(ConfigError, match="TOOL_TIMEOUT_MS"):
        read_defaults({"TOOL_TIMEOUT_MS": "soon"})


def test_a_configured_profile_replaces_one_of_the_house():
    profiles = read_profiles({"demo": {"seed": 7}, "mine": {"result": "Other"}}, {})
    assert read_request({"prompt": "x", "profile": "demo"}, profiles).seed == 7
    assert read_request({"prompt": "x", "profile": "mine"}, profiles).result == "Other"


def test_the_request_goes_before_its_profile():
    order = read_request({"prompt": "x", "profile": "demo", "seed": 1}, read_profiles({}, {}))
    assert (order.seed, order.temperature) == (1, 0.2)
