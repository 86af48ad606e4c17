"""The gateway in front of fake clouds: errors with their remedies, retries, counts, renewed tokens."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.clouds import (
    AWS_ENV,
    aws,
    aws_error,
    chunk,
    event,
    exception,
    paths,
    replies,
    sse,
    streams,
)
from tests.fake_clouds import CLAUDE, NOVA, TOKEN
from tests.peers import gateway, model_server, whole

from toolbridge.config import Config, ProviderConfig
from toolbridge.core.errors import ConfigError
from toolbridge.upstream.clouds import available, chains, renewal

ASKED = {"max_tokens": 50, "messages": [{"role": "user", "content": "hello world"}]}
BARE = "anthropic.claude-opus-4-1-20250805-v1:0"
HELLO = [
    event("messageStart", {"role": "assistant"}),
    event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hello"}}),
]
END = [
    event("contentBlockStop", {"contentBlockIndex": 0}),
    event("messageStop", {"stopReason": "end_turn"}),
    event("metadata", {"usage": {"inputTokens": 3, "outputTokens": 2}}),
]
START = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 3}}}  # fmt: skip
CLAUDE_HELLO = [
    chunk(START),
    chunk({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    chunk({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}),
]  # fmt: skip
CLAUDE_END = [
    chunk({"type": "content_block_stop", "index": 0}),
    chunk({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
    chunk({"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 99}}),
]  # fmt: skip
WHOLE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hello"}]}},
    "stopReason": "end_turn", "usage": {"inputTokens": 3, "outputTokens": 2},
}  # fmt: skip


DONE = {
    "id": "m", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn", "usage": {},
}  # fmt: skip


@asynccontextmanager
async def bridged(answer, provider="bedrock", env=None, **settings):
    """Serve a gateway in front of a fake cloud; yield a function that asks it, and the cloud."""
    async with model_server(answer) as server:
        there = ProviderConfig(**{"url": server.url, "retries": 0, **settings})
        config = Config(log="off", providers={provider: there})
        async with gateway(config, env) as (url, _), aiohttp.ClientSession() as session:

            async def ask(model=NOVA, path="/v1/messages", **more):
                body = {"model": f"{provider}/{model}", **ASKED, **more}
                async with session.post(url + path, json=body) as found:
                    return found.status, await found.text(), found.headers

            yield ask, server


def message(text: str) -> str:
    return json.loads(text)["error"]["message"]


# ── credentials and addresses that are missing ───────────────────────────────


@pytest.mark.parametrize(
    ("env", "settings", "words"),
    [
        ({}, {"region": "us-east-1"}, ["AWS_BEARER_TOKEN_BEDROCK"]),
        ({"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "x"}, {}, ["region", "AWS_REGION"]),
        ({}, {"key": "k", "region": "us-east-1/../.."}, ["not an AWS region"]),
        (AWS_ENV, {"token_command": ("/nonexistent/aws",)}, ["token_command", "/nonexistent/aws"]),
        (AWS_ENV, {"token_command": ("/bin/false", "s3cr3t-argument")}, ["'/bin/false' failed (1)"]),
        (AWS_ENV, {"token_command": ("/bin/echo", "two words")}, ["printed no token"]),
        (AWS_ENV, {"token_command": ("/bin/echo", '{"x": 1}')}, ["access_token"]),
    ],
)  # fmt: skip
async def test_missing_credentials_are_an_error(monkeypatch, tmp_path, env, settings, words):
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):  # which botocore reads
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    async with bridged(aws(replies(WHOLE)), env=env, **settings) as (ask, server):
        status, text, _ = await ask()
    assert status in {404, 500}
    assert not [word for word in words if word not in message(text)], text
    assert "s3cr3t-argument" not in text
    assert not server.heard


AWS_WAYS = ["AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "`token_command`", "pip install '.[aws]'"]  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "settings", "words"),
    [
        ("bedrock", {}, [*AWS_WAYS, "bedrock needs an AWS region", "[providers.bedrock]"]),
        ("mantle", {"region": "nowhere"}, [*AWS_WAYS, "'nowhere' is not an AWS region"]),
        ("mine", {"cloud": "bedrock", "region": "us-east-1"}, [*AWS_WAYS, "is a model of mine"]),
        ("foundry", {"url": ""}, ["ANTHROPIC_FOUNDRY_API_KEY", "`token_command`", "foundry needs a resource", "ANTHROPIC_FOUNDRY_RESOURCE", "https://NAME.services.ai.azure.com"]),
        ("foundry", {"key": "$MY_KEY", "resource": "r"}, ["set MY_KEY", "pip install '.[azure]'"]),
        ("azure", {"url": ""}, ["AZURE_OPENAI_API_KEY", "azure needs a resource", "AZURE_OPENAI_ENDPOINT"]),
        ("vertex", {}, ["GOOGLE_APPLICATION_CREDENTIALS", "gcloud auth", "`token_command`", "pip install '.[google]'"]),
    ],
)  # fmt: skip
async def test_all_that_a_cloud_lacks_is_named_at_once(monkeypatch, provider, settings, words):
    monkeypatch.setattr(available, "_has", lambda _: False)
    async with bridged(replies({}), provider, env={}, **settings) as (ask, server):
        status, text, _ = await ask("m")
    assert status == 404
    assert not [word for word in words if word not in message(text)], text
    assert ("AZURE_OPENAI_API_KEY" in text) is (provider == "azure"), text
    assert ("region" in text) is (provider in {"bedrock", "mantle"}), text
    assert not server.heard


@pytest.mark.parametrize(
    ("provider", "settings", "words"),
    [
        ("bedrock", {}, ["needs an AWS region", "In addition, bedrock has no AWS credentials"]),
        ("foundry", {"url": ""}, ["needs a resource", "In addition, foundry has no key", "ANTHROPIC_FOUNDRY_API_KEY"]),
        ("bedrock", {"key": "k"}, ["needs an AWS region"]),
    ],
)  # fmt: skip
async def test_a_credential_chain_without_result_is_named_with_the_address(monkeypatch, provider, settings, words):  # fmt: skip
    """The vendor's package is there, and finds nothing."""

    async def none(*given):
        raise ConfigError(f"{given[1]} has no AWS credentials; {available.AWS_REMEDY}")

    monkeypatch.setattr(available, "_has", lambda _: True)
    monkeypatch.setattr(chains, "aws_keys", none)
    monkeypatch.setitem(sys.modules, "azure.core.exceptions", None)
    async with bridged(replies({}), provider, env={}, **settings) as (ask, server):
        status, text, _ = await ask("m")
    assert status == 500
    assert not [word for word in words if word not in message(text)], text
    assert ("In addition" in text) is ("key" not in settings)
    assert not server.heard


@pytest.mark.parametrize(
    ("provider", "settings", "model", "words"),
    [
        ("azure", {"url": "", "key": "k"}, "gpt-5.5", ["resource", "AZURE_OPENAI_ENDPOINT"]),
        ("azure", {"url": "", "key": "k", "resource": "a/b"}, "x", ["is not the name of a resource"]),
        ("foundry", {"url": "", "key": "k"}, "claude-opus-5-5", ["ANTHROPIC_FOUNDRY_RESOURCE"]),
        ("vertex", {"key": "k"}, "claude-opus-5-5", ["GOOGLE_CLOUD_PROJECT"]),
        ("vertex", {"project": "../x", "token_command": ("/bin/echo", "t")}, "gemini-4", ["not a project"]),
        ("vertex", {"project": "p", "credentials_file": "/nonexistent"}, "gemini-4", ["/nonexistent", "credentials_file"]),
    ],
)  # fmt: skip
async def test_missing_addresses_are_an_error_with_the_next_step(provider, settings, model, words):
    async with bridged(replies({}), provider, **settings) as (ask, server):
        status, text, _ = await ask(model)
    assert status == 500
    assert not [word for word in words if word not in message(text)], text
    assert not server.heard


# ── rejections ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", [NOVA, CLAUDE])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, ["clock", "AWS_SECRET_ACCESS_KEY"]),
        ({"AWS_ACCESS_KEY_ID": "AKIAOTHER"}, ["AWS_ACCESS_KEY_ID"]),
        ({"AWS_REGION": "eu-west-1"}, ["`region`"]),
        ({"AWS_SESSION_TOKEN": "expired"}, ["have expired", "aws sso login"]),
        ({"AWS_BEARER_TOKEN_BEDROCK": "ABSK-wrong-key"}, ["`key`"]),
    ],
)
async def test_wrong_credentials_name_the_remedy(model, stream, change, words):
    async with bridged(aws(replies(WHOLE)), env=AWS_ENV | change) as (ask, server):
        status, text, headers = await ask(model, stream=stream)
    assert status == 403
    assert json.loads(text)["error"]["type"] == "permission_error"
    assert not [word for word in words if word not in message(text)], text
    assert headers["x-should-retry"] == "false"
    assert headers["x-toolbridge-upstream-request-id"] == "r-1"
    assert len(server.heard) == 1
    assert "ABSK-wrong-key" not in text


@pytest.mark.parametrize(
    ("type", "status", "shown", "kind"),
    [
        ("ThrottlingException", 429, 429, "rate_limit_error"),
        ("ServiceQuotaExceededException", 400, 429, "rate_limit_error"),
        ("ModelNotReadyException", 429, 529, "overloaded_error"),
        ("ServiceUnavailableException", 503, 529, "overloaded_error"),
        ("ValidationException", 400, 400, "invalid_request_error"),
        ("ResourceNotFoundException", 404, 404, "not_found_error"),
        ("InternalServerException", 500, 500, "api_error"),
    ],
)
@pytest.mark.parametrize("model", [NOVA, CLAUDE])
async def test_types_of_aws_become_types_of_the_client(type, status, shown, kind, model):
    async def answer(_, line):
        await aws_error(line, type, "because", status)

    async with bridged(aws(answer), env=AWS_ENV) as (ask, _):
        found, text, _ = await ask(model)
    assert (found, json.loads(text)["error"]["type"]) == (shown, kind)
    assert "because" in message(text)


async def test_a_throttled_request_is_signed_and_sent_again():
    tries = []

    async def answer(heard, line):
        tries.append(heard.headers["authorization"])
        if len(tries) == 1:
            await aws_error(line, "ThrottlingException", "slow down", 429)
        else:
            await whole(line, WHOLE)

    async with bridged(aws(answer), env=AWS_ENV, retries=2) as (ask, _):
        status, _, _ = await ask()
    assert (status, len(tries)) == (200, 2)


async def test_a_model_behind_a_profile_is_asked_again_with_the_prefix_of_the_region():
    async def answer(heard, line):
        if "/us." in heard.path:
            await streams(*CLAUDE_HELLO, *CLAUDE_END)(heard, line)
        else:
            text = f"Invocation of model ID {BARE} with on-demand throughput isn\u2019t supported."
            await aws_error(line, "ValidationException", text, 400)

    async with bridged(aws(answer), env=AWS_ENV) as (ask, server):
        first = await ask(BARE, stream=True)
        second = await ask(BARE, stream=True)
    assert (first[0], second[0]) == (200, 200)
    assert "Hello" in first[1]
    expected = [f"/model/{p}{BARE}/invoke-with-response-stream" for p in ("", "us.", "us.")]
    assert [heard.path for heard in server.heard] == expected


@pytest.mark.parametrize(
    ("provider", "settings", "text"),
    [
        ("bedrock", {"key": "ABSK-good-key", "region": "us-east-1"}, "invalid beta flag"),
        ("foundry", {"key": "k"}, "Unexpected value(s) `bad-1`, `bad-2` for the `anthropic-beta` header."),
        ("vertex", {"project": "p", "token_command": ("/bin/echo", "t")}, "Unexpected value(s) `bad-1`, `bad-2` for the `anthropic-beta` header."),
    ],
)  # fmt: skip
async def test_betas_that_a_cloud_rejects_are_left_out_and_reported(provider, settings, text):
    good = "interleaved-thinking-2025-05-14"
    sent = []

    async def answer(heard, line):
        betas = heard.json.get("anthropic_beta") or heard.headers.get("anthropic-beta", "").split(
            ","
        )
        sent.append(betas)
        if any(beta.startswith("bad") for beta in betas):
            await whole(line, {"type": "error", "message": text, "error": {"type": "invalid_request_error", "message": text}}, 400)  # fmt: skip
        else:
            await whole(line, DONE)

    headers = {"anthropic-beta": f"bad-1,{good},bad-2"}
    async with bridged(answer, provider, headers=headers, **settings) as (ask, _):
        model = "anthropic.claude-opus-4-7" if provider == "bedrock" else "claude-opus-4-7"
        status, _, first = await ask(model)
        assert (status, (await ask(model))[0]) == (200, 200)
    assert sent == [["bad-1", good, "bad-2"], [good], [good]]
    assert any("beta" in value for name, value in first.items() if name.startswith("x-toolbridge"))


async def test_a_model_that_rejects_every_beta_gets_none():
    tries = []

    async def answer(heard, line):
        tries.append(heard.json.get("anthropic_beta", []))
        if tries[-1]:
            await aws_error(line, "ValidationException", "invalid beta flag", 400)
        else:
            await whole(line, DONE)

    betas = {"anthropic-beta": "x-1,effort-2025-11-24"}
    async with bridged(aws(answer), env=AWS_ENV, headers=betas) as (ask, _):
        assert (await ask(CLAUDE))[0] == 200
    assert tries == [["x-1", "effort-2025-11-24"], ["effort-2025-11-24"], []]


# ── streams that fail ────────────────────────────────────────────────────────

CASES = [(NOVA, HELLO, END), (CLAUDE, CLAUDE_HELLO, CLAUDE_END)]
every_body = pytest.mark.parametrize(("model", "hello", "end"), CASES, ids=["converse", "invoke"])


@every_body
async def test_counts_come_with_the_stream(model, hello, end):
    async with bridged(aws(streams(*hello, *end)), env=AWS_ENV) as (ask, _):
        status, text, _ = await ask(model, stream=True)
    assert status == 200
    last = json.loads(text.rpartition("event: message_delta\ndata: ")[2].partition("\n")[0])
    assert (last["usage"]["input_tokens"], last["usage"]["output_tokens"]) == (3, 2)
    assert text.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')


@every_body
async def test_an_exception_in_mid_stream_is_the_last_event(model, hello, end):
    failure = exception("throttlingException", "Too many tokens, please wait.")
    async with bridged(aws(streams(*hello, failure, *end)), env=AWS_ENV) as (ask, _):
        with pytest.raises(aiohttp.ClientPayloadError):
            await ask(model, stream=True)
    async with bridged(aws(streams(*hello, failure)), "bedrock", AWS_ENV) as (ask, _):
        status, text, _ = await ask(model)  # a client without a stream gets the status
    assert (status, json.loads(text)["error"]["type"]) == (429, "rate_limit_error")
    assert "Too many tokens" in message(text)


@every_body
async def test_an_exception_before_any_content_is_retried(model, hello, end):
    tries = []

    async def answer(heard, line):
        tries.append(heard)
        failing = exception("modelStreamErrorException", "The model had a problem.")  # fmt: skip
        await streams(*([hello[0], failing] if len(tries) == 1 else [*hello, *end]))(heard, line)

    async with bridged(aws(answer), env=AWS_ENV, retries=1) as (ask, _):
        status, text, _ = await ask(model, stream=True)
    assert (status, len(tries)) == (200, 2)
    assert text.count("event: message_start") == 1
    assert "Hello" in text


@every_body
@pytest.mark.parametrize("how", ["cut", "damaged"])
async def test_a_broken_stream_is_never_a_success(model, hello, end, how):
    data = b"".join([*hello, *end])
    at = len(b"".join(hello)) + 40
    broken = data[:at] if how == "cut" else data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    async with bridged(aws(streams(broken)), env=AWS_ENV) as (ask, _):
        status, text, _ = await ask(model)
    assert status == 502
    assert "Hello" not in text


@pytest.mark.parametrize(
    ("provider", "model", "settings", "answer"),
    [
        ("bedrock", CLAUDE, {"key": "ABSK-good-key", "region": "us-east-1"}, streams(*CLAUDE_HELLO, *CLAUDE_END)),
        ("vertex", "claude-opus-5-5", {"project": "p", "token_command": ("/bin/echo", "t")},
         sse(START, {"type": "message_stop", "amazon-bedrock-invocationMetrics": 1}, named=True)),
    ],
)  # fmt: skip
async def test_passthrough_gives_the_events_that_the_cloud_wrapped(
    provider, model, settings, answer
):
    async with bridged(answer, provider, passthrough=True, **settings) as (ask, server):
        status, text, _ = await ask(model, stream=True, unknown_field=7)
    assert status == 200
    assert text.startswith("event: message_start\ndata: " + json.dumps(START))
    assert "amazon-bedrock-invocationMetrics" in text
    assert server.heard[0].json["unknown_field"] == 7


async def test_azure_makes_embeddings():
    found = {"object": "list", "data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 1}}  # fmt: skip
    async with bridged(replies(found), "azure", key="k") as (ask, server):
        status, text, _ = await ask("text-embedding-3-small", "/v1/embeddings", input="hi")
    assert status == 200, text
    assert server.heard[0].path == "/openai/v1/embeddings"
    async with bridged(replies(found), "azure", key="k", api_version="2024-10-21") as (ask, server):
        assert (await ask("text-embedding-3-small", "/v1/embeddings", input="hi"))[0] == 200
    path = "/openai/deployments/text-embedding-3-small/embeddings?api-version=2024-10-21"
    assert server.heard[0].path == path


# ── counts ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("provider", "model", "settings", "path", "reply", "inner"),
    [
        ("bedrock", NOVA, {"key": "ABSK-good-key", "region": "us-east-1"}, f"/model/{NOVA}/count-tokens", "inputTokens", "converse"),
        ("bedrock", CLAUDE, {"key": "ABSK-good-key", "region": "us-east-1"}, f"/model/{CLAUDE[3:]}/count-tokens", "inputTokens", "invokeModel"),
        ("vertex", "gemini-4", {"project": "p", "token_command": ("/bin/echo", "t")}, "/v1beta1/projects/p/locations/global/publishers/google/models/gemini-4:countTokens", "totalTokens", "contents"),
        ("vertex", "claude-opus-5-5", {"project": "p", "token_command": ("/bin/echo", "t")}, "/v1/projects/p/locations/global/publishers/anthropic/models/count-tokens:rawPredict", "input_tokens", "anthropic_version"),
        ("foundry", "claude-opus-5-5", {"key": "k"}, "/anthropic/v1/messages/count_tokens", "input_tokens", "messages"),
        ("azure", "gpt-5.5", {"key": "k"}, "/openai/v1/responses/input_tokens", "input_tokens", "input"),
    ],
)  # fmt: skip
async def test_clouds_count_tokens(provider, model, settings, path, reply, inner):
    async with bridged(replies({reply: 77}), provider, **settings) as (ask, server):
        status, text, headers = await ask(model, "/v1/messages/count_tokens")
    assert (status, json.loads(text)) == (200, {"input_tokens": 77})
    assert headers["x-toolbridge-token-count"] == "exact"
    (heard,) = server.heard
    assert heard.path == path
    assert inner in heard.json or inner in heard.json["input"]


# ── Vertex AI ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", ["gemini-4", "claude-opus-5-5"])
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, ["gcloud auth application-default login"]),
        (403, ["roles/aiplatform.user", "project p-1"]),
        (404, ["`location`", "now us-east5"]),
        (429, ["try again later"]),
    ],
)
@pytest.mark.parametrize("array", [False, True])
async def test_errors_of_vertex_name_the_remedy(model, status, words, array):
    names = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}  # fmt: skip
    text = "Resource exhausted, please try again later."
    error = {"error": {"code": status, "message": text, "status": names[status]}}
    settings = {"project": "p-1", "location": "us-east5", "token_command": ("/bin/echo", "t")}
    answer = replies([error] if array and model.startswith("gemini") else error, status)
    async with bridged(answer, "vertex", **settings) as (ask, _):
        found, shown, _ = await ask(model)
    assert found == status
    assert not [word for word in words if word not in message(shown)], shown


async def test_betas_stay_in_the_header_of_vertex_and_move_into_the_body_of_bedrock():
    extra = {"headers": {"anthropic-beta": "a-1,b-2"}}
    google = {"project": "p", "token_command": ("/bin/echo", "t"), **extra}
    async with bridged(replies(DONE), "vertex", **google) as (ask, server):
        assert (await ask("claude-opus-5-5"))[0] == 200
    (heard,) = server.heard
    assert heard.headers["anthropic-beta"] == "a-1,b-2"
    assert heard.json["anthropic_version"] == "2026-10-21"
    async with bridged(aws(replies(DONE)), env=AWS_ENV, **extra) as (ask, server):
        assert (await ask(CLAUDE))[0] == 200
    (heard,) = server.heard
    assert heard.json["anthropic_beta"] == ["a-1", "b-2"]
    assert not {"anthropic-beta", "anthropic-version"} & heard.headers.keys()


async def test_sampling_of_new_claudes_is_a_loss_and_not_sent():
    async with bridged(aws(replies(DONE)), env=AWS_ENV) as (ask, server):
        _, _, headers = await ask("eu.anthropic.claude-opus-5-5", temperature=1.0)
        await ask(CLAUDE, temperature=1.0)
    assert ["temperature" in heard.json for heard in server.heard] == [False, True]
    assert any("temperature" in value for value in headers.values())


# ── Azure ────────────────────────────────────────────────────────────────────

FILTERED = {
    "error": {
        "code": "content_filter", "param": "prompt", "status": 400,
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {
                "hate": {"filtered": False, "severity": "safe"},
                "violence": {"filtered": True, "severity": "high"},
                "jailbreak": {"filtered": False, "detected": True},
            },
        },
    }
}  # fmt: skip


@pytest.mark.parametrize("model", ["gpt-5.5", "prod-chat"])
@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (FILTERED, 400, ["content filter refused the prompt (violence, jailbreak)"]),
        ({"error": {"code": "DeploymentNotFound", "message": "no such deployment"}}, 404, ["`deployments`"]),
        ({"error": {"code": "401", "message": "Access denied due to invalid subscription key"}}, 401, ["`resource`"]),
    ],
)  # fmt: skip
async def test_errors_of_azure_name_the_remedy(model, body, status, words):
    async with bridged(replies(body, status), "azure", key="k", retries=2) as (ask, server):
        found, text, _ = await ask(model)
    assert found == status
    assert len(server.heard) == 1
    assert not [word for word in words if word not in message(text)], text


async def test_chunks_of_the_content_filter_do_not_disturb_a_stream():
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    safe = {"hate": {"filtered": False, "severity": "safe"}}
    chunks = [
        {"id": "", "object": "", "created": 0, "model": "", "choices": [],
         "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": safe}]},
        {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}, "content_filter_results": safe}]},
        {**head, "choices": [{"index": 0, "content_filter_offsets": {"check_offset": 1}, "content_filter_results": safe}]},
        {**head, "choices": [{"index": 0, "delta": None, "content_filter_results": safe}]},
        {**head, "choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "finish_reason": "content_filter", "content_filter_results": safe}]},
    ]  # fmt: skip
    async with bridged(sse(*chunks), "azure", key="k") as (ask, _):
        status, text, _ = await ask("prod-chat")
    assert status == 200
    answer = json.loads(text)
    assert answer["content"] == [{"type": "text", "text": "Hello"}]
    assert answer["stop_reason"] == "refusal"


async def test_a_deployment_has_the_name_of_its_model():
    done = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [
        {"type": "message", "id": "x", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    ]}  # fmt: skip
    names = {"gpt-5.5": "prod-gpt"}
    async with bridged(replies(done), "azure", key="k", deployments=names) as (ask, server):
        assert (await ask("gpt-5.5"))[0] == 200
    assert server.heard[0].json["model"] == "prod-gpt"
    async with bridged(
        replies(done), "azure", key="k", deployments=names, api_version="2025-04-01-preview"
    ) as (ask, server):
        assert (await ask("gpt-5.5"))[0] == 200
    assert server.heard[0].path == "/openai/responses?api-version=2025-04-01-preview"


async def test_an_arn_has_the_api_of_its_model():
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
    names = {"anthropic.claude-opus-5-5": arn}
    async with bridged(aws(replies(DONE)), env=AWS_ENV, deployments=names) as (ask, server):
        assert (await ask("anthropic.claude-opus-5-5"))[0] == 200
    (heard,) = server.heard
    assert heard.path == f"/model/{arn.replace('/', '%2F')}/invoke"
    assert heard.json["anthropic_version"] == "2026-10-21"
    apis = {arn: "anthropic"}
    async with bridged(aws(replies(DONE)), env=AWS_ENV, apis=apis) as (ask, server):
        assert (await ask(arn))[0] == 200
    assert server.heard[0].json["anthropic_version"] == "bedrock-2023-05-31"


async def test_a_pattern_of_the_user_decides_about_the_api():
    async with bridged(aws(replies(WHOLE)), env=AWS_ENV, apis={"*": "bedrock"}) as (ask, server):
        assert (await ask(CLAUDE))[0] == 200
    assert server.heard[0].path == f"/model/{CLAUDE}/converse"


async def test_a_second_region_is_a_provider_of_another_name():
    answer = aws(replies(WHOLE), region="eu-central-1")
    settings = {"cloud": "bedrock", "region": "eu-central-1"}
    async with bridged(answer, "frankfurt", AWS_ENV, **settings) as (ask, _):
        assert (await ask())[0] == 200


# ── tokens that expire ───────────────────────────────────────────────────────


async def test_a_token_command_is_run_once_for_many_requests_and_again_after_a_401(tmp_path):
    counter = tmp_path / "runs"
    command = ("/bin/sh", "-c", f"echo x >> {counter}; wc -l < {counter}")
    valid = {"Bearer 1"}

    async def answer(heard, line):
        if heard.headers["authorization"] in valid:
            await whole(line, {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]})  # fmt: skip
        else:
            await whole(line, {"error": {"code": 401, "message": "no", "status": "UNAUTHENTICATED"}}, 401)  # fmt: skip

    settings = {"project": "p", "token_command": command}
    async with bridged(answer, "vertex", **settings) as (ask, _):
        found = await asyncio.gather(*(ask("gemini-4") for _ in range(8)))
        assert {status for status, _, _ in found} == {200}
        assert counter.read_text().count("x") == 1
        valid.clear()  # revoked, and the new one is not accepted either: one new run at most
        status, _, _ = await ask("gemini-4")
        assert status == 401
        assert (
            counter.read_text().count("x") == 1
        )  # a token that is seconds old is not fetched anew


async def test_a_token_that_was_revoked_is_fetched_anew_once(tmp_path, monkeypatch):
    monkeypatch.setattr(renewal, "_FRESH", 0.0)
    counter = tmp_path / "runs"
    command = ("/bin/sh", "-c", f"echo x >> {counter}; wc -l < {counter}")

    async def answer(heard, line):
        if heard.headers["authorization"] == "Bearer 2":
            await whole(line, DONE)
        else:
            await whole(line, {"error": {"code": 401, "message": "no"}}, 401)

    settings = {"project": "p", "token_command": command}
    async with bridged(answer, "vertex", **settings) as (ask, server):
        assert (await ask("claude-opus-5-5"))[0] == 200
        assert (await ask("claude-opus-5-5"))[0] == 200
    tokens = [heard.headers["authorization"] for heard in server.heard]
    assert tokens == ["Bearer 1", "Bearer 2", "Bearer 2"]


async def test_a_key_that_the_cloud_repeats_is_masked():
    answer = replies({"error": {"code": "x", "message": f"bad key {TOKEN}"}}, 401)
    async with bridged(answer, "azure", key=TOKEN) as (ask, _):
        _, text, _ = await ask("prod-chat")
    assert TOKEN not in text


async def test_keys_that_a_command_prints_sign_requests():
    keys = json.dumps({"Version": 1, "AccessKeyId": AWS_ENV["AWS_ACCESS_KEY_ID"], "SecretAccessKey": AWS_ENV["AWS_SECRET_ACCESS_KEY"], "Expiration": "2099-01-01T00:00:00Z"})  # fmt: skip
    settings = {"region": "us-east-1", "token_command": ("/bin/echo", keys)}
    async with bridged(aws(replies(WHOLE)), env={}, **settings) as (ask, _):
        assert (await ask())[0] == 200


async def test_paths_of_the_fake_are_answered_by_their_ends():
    answer = aws(paths(converse=replies(WHOLE), converse_stream=streams(*HELLO, *END)))
    async with bridged(answer, env=AWS_ENV) as (ask, _):
        assert "Hello" in (await ask())[1]
        assert "Hello" in (await ask(stream=True))[1]
