"""`key = "caller"`: each caller's own login goes to that provider, unchanged and nowhere else."""

import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.peers import gateway, whole
from tests.server.test_corrections import ANSWERS, CLIENTS, asked_server, error

from toolbridge.config import Config, ProviderConfig, secrets_of

OAT = "sk-ant-oat01-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ1c2VyLTEifQ.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
GATEWAY_KEY = "tb-gateway-key-0001"
CLAUDE_CODE = {
    "authorization": f"Bearer {OAT}",
    "anthropic-beta": "oauth-2025-04-20,claude-code-20250219",
    "anthropic-version": "2023-06-01",
    "user-agent": "claude-cli/2.1.325 (external, cli)",
    "x-app": "cli",
    "content-type": "application/json",
}
BODY = (
    b'{"model": "claude-sonnet-5-5",  "max_tokens": 5, "temperature": 0.5,\n "brand_new": {"a": 1.0},'
    b' "system": [{"type":"text","text":"x-anthropic-billing-header: v=1"}],'
    b' "messages": [{"role":"user","content":"caf\\u00e9 \\/"}]}'
)


def answering(api: str, status: int = 200, reply: dict | None = None):
    async def answer(heard, line):
        if heard.path.endswith("count_tokens"):
            await whole(line, {"input_tokens": 77})
        else:
            await whole(line, ANSWERS[api] if reply is None else reply, status)

    return answer


@asynccontextmanager
async def both(own, other=None, api: str = "anthropic", env=None, **settings):
    """Serve a gateway in front of a provider with callers' logins, and one with the gateway's key."""
    other = other or answering("openai_chat")
    async with asked_server(own) as mine, asked_server(other) as theirs:
        providers = {
            "mine": ProviderConfig(api=api, url=mine.url, key="caller", retries=0),
            "theirs": ProviderConfig(api="openai_chat", url=theirs.url, key="sk-theirs-0123456789"),
            "open": ProviderConfig(api="openai_chat", url=theirs.url),
        }
        names = {"default": "mine/claude-sonnet-5-5", "theirs": "theirs/m", "open": "open/m"}
        settings = {"log": "off", **settings}
        config = Config(map=names, providers=providers, **settings)
        async with gateway(config, env) as (url, app):
            yield url, mine, theirs, app


async def post(url: str, body: bytes | dict, path: str = "/v1/messages", **headers: str):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, data=data, headers=sent) as reply,
    ):
        return reply, await reply.text()


async def test_claude_codes_login_arrives_as_it_was_sent():
    async with both(answering("anthropic")) as (url, mine, theirs, _):
        reply, _ = await post(url, BODY, **CLAUDE_CODE)
        assert reply.status == 200
    (heard,) = mine.heard
    for name, value in CLAUDE_CODE.items():
        assert heard.headers[name] == value
    assert "x-api-key" not in heard.headers
    assert heard.body == BODY, "byte for byte, the billing line included"
    assert theirs.heard == []


async def test_codexs_login_arrives_as_it_was_sent():
    login = {
        "authorization": f"Bearer {JWT}",
        "chatgpt-account-id": "acc-1",
        "originator": "codex_cli_rs",
        "session_id": "s-1",
        "user-agent": "codex_cli_rs/0.200",
    }
    body = b'{"model":"gpt-6-sol","input":[{"role":"user","content":"hi"}],"store":false}'
    async with (
        both(answering("openai_responses"), api="openai_responses") as (url, mine, _, _app),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/responses", data=body, headers=login) as reply,
    ):
        assert reply.status == 200
    (heard,) = mine.heard
    assert heard.path == "/v1/responses"
    assert {name: heard.headers[name] for name in login} == login


@pytest.mark.parametrize("client", sorted(CLIENTS))
async def test_a_client_of_any_api_can_send_a_login(client):
    path, body = CLIENTS[client]
    async with both(answering("anthropic")) as (url, mine, _, _app):
        reply, _ = await post(url, body, path, authorization=f"Bearer {OAT}")
        assert reply.status == 200
    assert mine.heard[0].headers["authorization"] == f"Bearer {OAT}"


@pytest.mark.parametrize("client", sorted(CLIENTS))
async def test_without_a_login_the_error_names_the_headers(client):
    path, body = CLIENTS[client]
    async with both(answering("anthropic")) as (url, mine, _, _app):
        reply, text = await post(url, body, path)
    assert reply.status == 401
    assert "Authorization: Bearer" in text
    assert "x-toolbridge-key" in text
    assert mine.heard == []


@pytest.mark.parametrize("name", ["theirs", "open"])
async def test_another_provider_does_not_get_it(name):
    async with both(answering("anthropic")) as (url, mine, theirs, _):
        login = {
            **CLAUDE_CODE,
            "x-api-key": OAT,
            "x-goog-api-key": OAT,
            "chatgpt-account-id": "acc-1",
        }
        asked = {"model": name, "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
        assert (await post(url, asked, **login))[0].status == 200
        chat = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
        assert (await post(url, chat, "/v1/chat/completions", **login))[0].status == 200
        await post(url, asked, "/v1/messages/count_tokens", **login)
    assert mine.heard == []
    assert len(theirs.heard) == 2
    for heard in theirs.heard:
        own = "Bearer sk-theirs-0123456789" if name == "theirs" else None
        assert heard.headers.get("authorization") == own
        assert OAT not in str(heard.headers) + heard.body.decode()
        assert "acc-1" not in str(heard.headers)


async def test_the_next_caller_needs_a_login_of_its_own():
    async with both(answering("anthropic")) as (url, mine, _, _app):
        assert (await post(url, BODY, **CLAUDE_CODE))[0].status == 200
        assert (await post(url, BODY))[0].status == 401
        assert (await post(url, BODY, x_api_key="sk-ant-api03-other"))[0].status == 200
    assert len(mine.heard) == 2
    assert mine.heard[1].headers["x-api-key"] == "sk-ant-api03-other"
    assert "authorization" not in mine.heard[1].headers


async def test_the_gateways_own_key_comes_in_its_own_header_and_is_not_forwarded():
    async with both(answering("anthropic"), key=GATEWAY_KEY) as (url, mine, _, _app):
        reply, _ = await post(url, BODY, **CLAUDE_CODE, x_toolbridge_key=GATEWAY_KEY)
        assert reply.status == 200
        reply, _ = await post(url, BODY, authorization=f"Bearer {OAT}", x_api_key=GATEWAY_KEY)
        assert reply.status == 200
        for heard in mine.heard:
            assert heard.headers["authorization"] == f"Bearer {OAT}"
            assert GATEWAY_KEY not in str(heard.headers)
        for header in ("authorization", "x_api_key", "x_goog_api_key"):
            value = f"Bearer {GATEWAY_KEY}" if header == "authorization" else GATEWAY_KEY
            reply, text = await post(url, BODY, **{header: value})
            assert (reply.status, 'key = \\"caller\\"' in text) == (401, True)
        reply, text = await post(url, BODY, **CLAUDE_CODE)
        assert (reply.status, "x-toolbridge-key" in text) == (403, True)
        reply, _ = await post(url, BODY, **CLAUDE_CODE, x_toolbridge_key="wrong")
        assert reply.status == 403
    assert len(mine.heard) == 2


async def test_a_count_uses_the_login_of_its_own_request():
    asked = {"model": "x", "messages": [{"role": "user", "content": "hi"}]}
    path = "/v1/messages/count_tokens"
    async with both(answering("anthropic")) as (url, mine, _, _app):
        reply, text = await post(url, asked, path, **CLAUDE_CODE)
        assert json.loads(text) == {"input_tokens": 77}
        assert mine.heard[0].headers["authorization"] == f"Bearer {OAT}"
        reply, text = await post(url, asked, path)
        assert reply.headers["x-toolbridge-token-count"] != "exact"
    assert len(mine.heard) == 1


async def test_a_login_is_not_logged_stored_or_repeated(tmp_path, capsys):
    repeated = error(f"bad token {OAT} and Bearer {OAT}", "anthropic")
    env = {"XDG_STATE_HOME": str(tmp_path)}
    own = answering("anthropic", 401, repeated)
    async with both(own, env=env, log="json") as (url, mine, _, _app):
        reply, text = await post(url, BODY, **CLAUDE_CODE)
        assert reply.status == 401
        asked = CLIENTS["openai_chat"][1]
        _, other = await post(url, asked, "/v1/chat/completions", authorization=f"Bearer {OAT}")
        async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as metrics:
            shown = await metrics.text()
    logged = capsys.readouterr()
    assert len(mine.heard) == 2
    assert '"http.response.status_code":401' in logged.err
    for where in (text, other, shown, logged.err, logged.out, *map(str, reply.headers.values())):
        assert OAT not in where
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or OAT.encode() not in file.read_bytes()


async def test_nothing_is_corrected_with_a_callers_login():
    own = answering(
        "anthropic", 400, error("temperature: Extra inputs are not permitted", "anthropic")
    )
    async with both(own) as (url, mine, _, _app):
        reply, text = await post(url, BODY, **CLAUDE_CODE)
    assert (reply.status, "Extra inputs" in text) == (400, True)
    assert [heard.body for heard in mine.heard] == [BODY]


async def test_a_rejected_login_is_not_tried_again():
    text = "This credential is only authorized for use with Claude Code"
    own = answering("anthropic", 403, error(text, "anthropic"))
    async with both(own) as (url, mine, _, _app):
        reply, said = await post(url, BODY, **CLAUDE_CODE)
    assert (reply.status, text in said) == (403, True)
    assert len(mine.heard) == 1


async def test_embeddings_and_structured_streams():
    vectors = {
        "data": [{"index": 0, "embedding": [0.5]}],
        "model": "e",
        "usage": {"prompt_tokens": 1},
    }
    async with both(answering("openai_chat", reply=vectors), api="openai_chat") as (
        url,
        mine,
        _,
        _a,
    ):
        asked = {"model": "mine/e", "input": "hi"}
        reply, _ = await post(url, asked, "/v1/embeddings", authorization=f"Bearer {JWT}")
        assert reply.status == 200
        assert mine.heard[0].headers["authorization"] == f"Bearer {JWT}"
        reply, text = await post(url, asked, "/v1/embeddings")
        assert (reply.status, "caller" in text) == (401, True)
        stream = {"model": "mine/m", "prompt": "hi"}
        reply, text = await post(url, stream, "/v1/stream", authorization=f"Bearer {JWT}")
        assert "login of each caller" in text
    assert len(mine.heard) == 1


def test_the_word_is_no_secret():
    assert secrets_of(Config(), [ProviderConfig(key="caller")], {}) == []


def test_a_created_key_is_not_forwarded():
    from toolbridge.server.caller_login import login_of_caller
    from toolbridge.server.http import IncomingRequest
    from toolbridge.server.http_head import Head
    from toolbridge.store.keys import new_key

    _, key = new_key("alice", 0.0)
    for name, value in (("authorization", f"Bearer {key}"), ("x-api-key", key)):
        head = Head("POST", "/v1/messages", b"", {name.encode(): value.encode()})
        assert login_of_caller(IncomingRequest(head), "") == {}
