"""A schema for the answer, as each API gets it, from clients of other APIs and of the same one."""

import json

import pytest
from tests.tables import every_row

from toolbridge import codecs, providers
from toolbridge.config import ProviderConfig
from toolbridge.core.codec import Target
from toolbridge.core.messages import OutputFormat, Request, Text, Tool, Turn
from toolbridge.translate import RequestOptions, plan

CITY = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "people": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
    },
    "required": ["name", "tags"],
}
WHOLE = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
MAP = {"type": "object", "properties": {"m": {"type": "object"}}, "required": ["m"]}
CLOSED = {"additionalProperties": False}


def known(provider: str) -> ProviderConfig:
    """Return a known provider; `openai_chat` is OpenAI by the API of other servers."""
    if provider == "openai_chat":
        return ProviderConfig(api="openai_chat", quirks={"schema_subset": "openai"})
    return providers.load(provider)


def sent(provider: str, schema: dict, *, model="m", tools=(), origin="", **output):
    """Return the body and the losses of a request to a known provider."""
    config = known(provider)
    asked = Request(
        model,
        (Turn("user", (Text("x"),)),),
        tools=tools,
        origin=origin,
        output=OutputFormat(schema, **output),
    )
    target = Target(model=model, provider=provider, quirks=config.quirks)
    outgoing = codecs.load(config.api).encode_request(asked, target)
    return json.loads(json.dumps(outgoing.body)), outgoing.losses


def schema_in(provider: str, *args, **options) -> dict:
    body, _ = sent(provider, *args, **options)
    match known(provider).api:
        case "anthropic":
            return body["output_config"]["format"]["schema"]
        case "gemini":
            assert body["generationConfig"]["responseMimeType"] == "application/json"
            return body["generationConfig"]["responseJsonSchema"]
        case "ollama":
            return body["format"]
        case "openai_responses":
            return body["text"]["format"]["schema"]
    return body["response_format"]["json_schema"]["schema"]


both = pytest.mark.parametrize("openai", ["openai", "openai_chat"])


def strict_in(provider: str, *args, **options):
    body, losses = sent(provider, *args, **options)
    if "text" in body:
        return body["text"]["format"].get("strict"), losses
    return body["response_format"]["json_schema"].get("strict"), losses


@both
def test_openai_gets_a_strict_schema_for_an_answer_that_is_checked(openai):
    strict, losses = strict_in(openai, CITY, checked=True)
    assert strict is True
    assert schema_in(openai, CITY, checked=True) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "minLength: 2"},
            "people": {"type": ["integer", "null"], "minimum": 1},
            "tags": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 2,
                "description": "uniqueItems: true",
            },
        },
        "required": ["name", "people", "tags"],
        **CLOSED,
    }
    (loss,) = losses
    assert loss.what == "output.schema.properties.name.minLength"
    assert "properties.tags.uniqueItems" in loss.why
    assert loss.minor


@both
def test_a_client_that_does_not_check_gets_no_null_for_its_optional_keys(openai):
    assert strict_in(openai, CITY) == (None, ())
    assert schema_in(openai, CITY) == CITY
    assert strict_in(openai, WHOLE) == (True, ())
    assert schema_in(openai, WHOLE) == WHOLE | CLOSED
    strict, (loss,) = strict_in(openai, CITY, strict=True)
    assert (strict, loss.what) == (False, "output.strict")


@both
def test_strict_mode_is_left_out_where_the_client_says_so_or_the_schema_does_not_fit(openai):
    assert strict_in(openai, WHOLE, strict=False) == (False, ())
    strict, (loss,) = strict_in(openai, MAP, checked=True)
    assert (strict, loss.what) == (False, "output.strict")
    assert "properties.m is an object with free keys" in loss.why
    assert schema_in(openai, MAP, checked=True) == MAP


def test_anthropic_gets_closed_objects_and_the_keywords_that_it_has():
    _, losses = sent("anthropic", CITY)
    assert schema_in("anthropic", CITY) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "minLength: 2"},
            "people": {"type": "integer", "description": "minimum: 1"},
            "tags": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "uniqueItems: true; minItems: 2",
            },
        },
        "required": ["name", "tags"],
        **CLOSED,
    }
    assert [loss.minor for loss in losses] == [False]


@pytest.mark.parametrize("provider", ["anthropic"])
def test_a_schema_that_cannot_be_closed_goes_into_the_prompt_and_its_place_is_named(provider):
    body, (loss,) = sent(provider, MAP)
    assert "output_config" not in body
    assert loss.what == "output.schema"
    assert "properties.m is an object with free keys" in loss.why


def test_gemini_and_ollama_get_what_they_enforce():
    gemini = schema_in("google", CITY, model="gemini-3.1-pro")
    assert gemini["properties"]["people"] == {"type": "integer", "minimum": 1}
    assert gemini["properties"]["name"] == {"type": "string", "description": "minLength: 2"}
    assert gemini["required"] == ["name", "tags"]
    ollama = schema_in("ollama", CITY)
    assert ollama["properties"]["name"] == {"type": "string", "minLength": 2}
    assert "uniqueItems" not in ollama["properties"]["tags"]


@pytest.mark.parametrize("provider", ["llamacpp", "vllm", "lmstudio"])
def test_local_servers_get_the_keywords_of_their_grammars_and_no_strict(provider):
    strict, (loss,) = strict_in(provider, CITY, checked=True)
    assert (strict, loss.minor) == (None, True)
    schema = schema_in(provider, CITY)
    assert schema["properties"]["name"]["minLength"] == 2
    assert "uniqueItems" not in schema["properties"]["tags"]
    assert "description" not in schema["properties"]["tags"]
    body, (loss,) = sent(provider, {"type": "object", "properties": {"a": {"type": "florb"}}})
    assert body["response_format"] == {"type": "json_object"}
    assert "properties.a has the unknown type 'florb'" in loss.why


def test_groq_is_strict_for_two_models_only():
    model = "openai/gpt-oss-20b"
    assert strict_in("groq", CITY, model=model, checked=True)[0] is True
    assert (
        "minItems" not in schema_in("groq", CITY, model=model, checked=True)["properties"]["tags"]
    )
    assert strict_in("groq", CITY, model="llama-4", checked=True)[0] is None


TOOL = (Tool("f", "F", {"type": "object", "properties": {}}),)


@every_row("provider", ["llamacpp", "vllm", "groq", "lmstudio"])
def test_tools_are_offered_where_a_schema_would_exclude_them(provider):
    body, losses = sent(provider, WHOLE, tools=TOOL)
    assert "response_format" not in body
    assert len(body["tools"]) == 1
    assert [loss.what for loss in losses] == ["output"]


def test_others_take_both():
    assert schema_in("openai", WHOLE, tools=TOOL)
    assert schema_in("anthropic", WHOLE, tools=TOOL)


@every_row(
    "provider", ["openai", "anthropic", "google", "ollama", "llamacpp", "vllm", "groq", "cerebras"]
)
def test_a_client_of_the_same_api_keeps_its_schema(provider):
    api = providers.load(provider).api
    odd = MAP | {"$id": "x", "minProperties": 1}
    tools = () if api == "gemini" else TOOL
    assert schema_in(provider, odd, origin=api, tools=tools, model="gemini-3.1-pro") == odd


def test_an_unknown_server_gets_the_schema_as_it_is():
    asked = Request("m", output=OutputFormat(CITY, checked=True))
    body = codecs.load("openai_chat").encode_request(asked, Target(model="m")).body
    assert body["response_format"]["json_schema"] == {"name": "response", "schema": CITY}


def test_the_loss_is_named_as_the_client_names_the_field():
    target = Target(model="m", quirks=providers.load("openai").other_apis["openai_chat"])
    asked = Request("m", (Turn("user", (Text("x"),)),), origin="anthropic")
    schema = {**WHOLE, "properties": {"a": {"type": "string", "minLength": 1}}}
    asked = Request(asked.model, asked.turns, origin="anthropic", output=OutputFormat(schema))
    found = plan(asked, codecs.load("openai_chat"), target, RequestOptions())
    (loss,) = found.losses
    assert loss.what == "output_config.format.schema.properties.a.minLength"


@every_row(
    ("provider", "model", "expected"),
    [
        ("openai", "m", (True, True)),
        ("anthropic", "m", (True, True)),
        ("google", "gemini-3.1-pro", (True, True)),
        ("google", "gemini-2.5-pro", (True, False)),
        ("ollama", "m", (True, False)),
        ("llamacpp", "m", (True, False)),
        ("vllm", "m", (True, False)),
        ("groq", "openai/gpt-oss-20b", (True, False)),
        ("groq", "llama-4", (False, False)),
        ("deepseek", "m", (False, True)),
        ("openrouter", "m", (False, True)),
    ],
)
def test_a_codec_knows_what_a_provider_constrains(provider, model, expected):
    config = providers.load(provider)
    support = codecs.load(config.api).output_support(Target(model=model, quirks=config.quirks))
    assert (support.bound, support.with_tools) == expected
