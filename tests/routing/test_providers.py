"""The places that speak an API, and what is said of them that cannot be."""

import pytest
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.config import Config, ModelConfig, ProviderConfig
from toolbridge.core.errors import ConfigError
from toolbridge.core.messages import Request, Text, Turn
from toolbridge.policy.model_facts import JoinedFacts
from toolbridge.routing.capabilities import target_of
from toolbridge.routing.providers import find_providers


@every_row(
    ("host", "url"),
    [
        ("127.0.0.1:5", "http://127.0.0.1:5"),
        ("box", "http://box:11434"),
        ("0.0.0.0:7", "http://127.0.0.1:7"),
        (":7", "http://127.0.0.1:7"),
        ("https://box:7/", "https://box:7"),
        ("[::1]:7", "http://[::1]:7"),
        ("::1", "http://[::1]:11434"),
        ("[::]:7", "http://[::1]:7"),
        ("http://box/behind", "http://box:11434/behind"),
    ],
)
def test_ollamas_own_setting_says_where_it_is(host, url):
    assert find_providers(Config(), {"OLLAMA_HOST": host})["ollama"].url == url


def test_an_address_of_ollama_that_is_none_is_said():
    with pytest.raises(ConfigError, match="OLLAMA_HOST"):
        find_providers(Config(), {"OLLAMA_HOST": "box:port"})


@every_row(
    ("config", "words"),
    [
        ({"map": {"opus": "antropic/x"}}, "map.opus: .* did you mean 'anthropic'"),
        ({"models": {"m": ModelConfig(dialect="nosuch")}}, "models.m.dialect: .* use one of auto"),
        ({"providers": {"x": ProviderConfig(api="ollama", url="box:1")}}, "providers.x: `url` needs a scheme"),
        ({"providers": {"x": ProviderConfig(api="ollama", url="http://box:99999")}}, "`url` must be the URL of a server"),
        ({"providers": {"groq": ProviderConfig(quirks={"stroe": 1})}}, "providers.groq: .*stroe"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_at_the_start(config, words):
    with pytest.raises(ConfigError, match=words):
        find_providers(Config(**config), {})


@every_row("address", ["ollama/x", "hf.co/someone/model:Q4", "mistralai/x", "plain"])
def test_a_models_own_name_may_hold_a_slash(address):
    find_providers(Config(map={"default": address}), {})


@pytest.mark.parametrize(
    ("name", "api"),
    [("openai", "openai_responses"), ("vllm", "anthropic"), ("ollama", "openai_chat")],
)
def test_a_known_provider_may_be_asked_in_another_of_its_apis(name, api):
    url = "http://127.0.0.1:9/v1"
    config = Config(providers={name: ProviderConfig(api=api, url=url)})
    place = find_providers(config, {})[name]
    assert (place.api, place.quirks) == (api, {})


@pytest.mark.req("ZG-29")
@every_row("retention", ["none", "short", "long"])
@every_row(
    ("url", "openai"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://openai.com.example.org/v1", False),
        ("http://127.0.0.1:8080/v1", False),
    ],
)
def test_only_openai_by_its_url_is_asked_to_keep_a_prefix_for_a_day(url, openai, retention):
    place = ProviderConfig(api="openai_responses", url=url)
    target = target_of("mine", place, "gpt-5", ModelConfig(), JoinedFacts())
    turns = (Turn("user", (Text("hi"),)),)
    request = Request(model="gpt-5", turns=turns, extra={"cache_retention": retention})
    body = codecs.load("openai_responses").encode_request(request, target).body
    wanted = "24h" if openai and retention == "long" else None
    assert body.get("prompt_cache_retention") == wanted
