"""The built-in providers: their files, what is assumed in them, and OpenRouter's cost and headers."""

import argparse
import json

import aiohttp
import msgspec
import pytest
from tests.peers import gateway, whole
from tests.server.test_corrections import CHAT_ANSWER, CLIENTS, ask, asked_server
from tests.tables import every_row

from toolbridge import codecs, providers
from toolbridge.cli import doctor
from toolbridge.config import Config, ProviderConfig
from toolbridge.routing.provider_urls import endpoint_url
from toolbridge.routing.providers import find_providers, missing_key

URLS = {
    "minimax": "https://api.minimax.io/anthropic/v1/messages",
    "dashscope": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions",
    "kimi-coding": "https://api.kimi.com/coding/v1/messages",
    "zai-coding": "https://api.z.ai/api/coding/paas/v4/chat/completions",
    "huggingface": "https://router.huggingface.co/v1/chat/completions",
    "github": "https://models.github.ai/inference/chat/completions",
    "vercel": "https://ai-gateway.vercel.sh/v1/chat/completions",
    "cloudflare": "https://gateway.ai.cloudflare.com/v1/acc/default/compat/chat/completions",
    "perplexity": "https://api.perplexity.ai/chat/completions",
    "cohere": "https://api.cohere.ai/compatibility/v1/chat/completions",
    "sglang": "http://127.0.0.1:30000/v1/chat/completions",
    "tgi": "http://127.0.0.1:3000/v1/chat/completions",
}
ENV = {"CLOUDFLARE_ACCOUNT_ID": "acc", "CLOUDFLARE_API_TOKEN": "cf-token-0123456789"}


@every_row("name", sorted(URLS))
def test_requests_go_to_the_documented_url(name):
    found = find_providers(Config(), ENV)[name]
    path = "/v1/messages" if found.api == "anthropic" else "/chat/completions"
    assert endpoint_url(name, found, path) == URLS[name]


@every_row("name", providers.names())
def test_every_assumed_setting_is_one_of_the_file(name):
    given = providers.load(name)
    for path in given.assumed:
        table, _, inner = path.partition(".")
        value = getattr(given, table)
        assert (inner in value) if inner else (value != getattr(ProviderConfig(), table)), path
    if given.api != "demo":
        codecs.load_target(given.api)


def test_a_file_is_read_once_and_its_settings_belong_to_no_gateway():
    """Gateways share what was read; the variables and settings of one must not reach another."""
    before = {name: msgspec.json.encode(providers.load(name)) for name in providers.names()}
    own = ProviderConfig(
        headers={"x-a": "b"}, quirks={"thinking_field": "reasoning"}, url="http://a/v1"
    )
    found = find_providers(Config(providers={"groq": own}), ENV)
    assert found["groq"].headers["x-a"] == "b"
    assert providers.load("groq") is providers.load("groq")
    assert {name: msgspec.json.encode(providers.load(name)) for name in before} == before


def test_an_account_that_is_missing_is_named():
    found = find_providers(Config(), {})["cloudflare"]
    assert missing_key("cloudflare", found, {}) == "CLOUDFLARE_ACCOUNT_ID"
    found = find_providers(Config(), {"CLOUDFLARE_ACCOUNT_ID": "acc"})["cloudflare"]
    assert missing_key("cloudflare", found, {}) == "CLOUDFLARE_API_TOKEN"
    found = find_providers(Config(), ENV)["cloudflare"]
    assert missing_key("cloudflare", found, ENV) == ""
    assert found.headers == {"cf-aig-authorization": "Bearer cf-token-0123456789"}


async def test_a_request_without_the_account_names_the_variable():
    async with gateway(Config(log="off", map={"default": "cloudflare/openai/gpt-6"})) as (url, _):
        reply, text = await ask(url, "anthropic")
    assert reply.status == 404
    assert "CLOUDFLARE_ACCOUNT_ID" in text


def usage(**more) -> dict:
    counts = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    return CHAT_ANSWER | {"usage": counts | more}


@pytest.mark.parametrize(
    ("counted", "cost"),
    [
        ({"cost": 0.25, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.25}}, 0.25),
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}}, 0.51),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, 0.0),
        ({"cost": {"total_cost": 0.75}}, 0.75),
        ({"cost": "much"}, None),
        ({"cost": True}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_the_cost_of_openrouter_is_the_cost_of_the_answer(counted, cost, stream, capsys):
    async def answer(heard, line):
        if not heard.json.get("stream"):
            await whole(line, usage(**counted))
            return
        await line.head(200, "text/event-stream")
        text = {"id": "c", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}  # fmt: skip
        last = {"id": "c", "choices": [], "usage": usage(**counted)["usage"]}
        await line.send(f"data: {json.dumps(text)}\n\ndata: {json.dumps(last)}\n\ndata: [DONE]\n\n")
        await line.end()

    async with asked_server(answer) as server:
        place = ProviderConfig(url=server.url, key="sk-or-0123456789")
        config = Config(
            log="json", map={"default": "openrouter/m"}, providers={"openrouter": place}
        )
        async with gateway(config) as (url, _):
            reply, _ = await ask(url, "anthropic", stream=stream)
            assert reply.status == 200
            async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as metrics:
                shown = await metrics.text()
    (line,) = [json.loads(row) for row in capsys.readouterr().err.splitlines() if "/v1/mess" in row]
    assert line.get("cost_usd") == cost
    assert ("toolbridge_cost_usd_total" in shown) is (cost is not None)
    assert server.heard[0].headers["http-referer"] == "toolbridge"
    assert server.heard[0].headers["x-title"] == "toolbridge"


@pytest.mark.parametrize(
    ("given", "referer", "title"),
    [
        ({}, "toolbridge", "toolbridge"),
        ({"x-title": "mine"}, "toolbridge", "mine"),
        ({"X-Title": "", "http-referer": ""}, None, None),
        ({"x-other": "1"}, "toolbridge", "toolbridge"),
    ],
)
async def test_the_headers_of_openrouter_can_be_changed(given, referer, title):
    async def answer(_, line):
        await whole(line, CHAT_ANSWER)

    async with asked_server(answer) as server:
        place = ProviderConfig(url=server.url, headers=given)
        config = Config(log="off", map={"default": "openrouter/m"}, providers={"openrouter": place})
        async with gateway(config) as (url, _):
            await ask(url, "openai_chat")
    heard = server.heard[0].headers
    assert (heard.get("http-referer"), heard.get("x-title")) == (referer, title)


def test_doctor_shows_what_is_assumed_and_whose_login_is_used(tmp_path, monkeypatch):
    file = tmp_path / "toolbridge.toml"
    file.write_text(
        '[map]\ndefault = "dashscope/qwen3-max"\nmine = "login/m"\n'
        '[providers.dashscope]\nurl = "http://127.0.0.1:9"\n'
        '[providers.login]\napi = "anthropic"\nurl = "http://127.0.0.1:9"\nkey = "caller"\n'
    )
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = list(doctor.examine(argparse.Namespace(config=file, names=[])))
    shown = "\n".join(map(str, found))
    assert "dashscope: assumed from documentation, not seen on the wire: quirks.thinking" in shown
    assert "caller is not set" not in shown


def test_every_client_api_is_tested():
    assert sorted(CLIENTS) == codecs.names()
