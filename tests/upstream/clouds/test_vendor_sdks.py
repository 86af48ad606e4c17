"""The vendors' own cloud SDKs in front of the fake clouds: proof that the fakes verify the right thing.

Each SDK must be accepted with right credentials and rejected with wrong ones, and must read the
fakes' answers. boto3 and its signatures are tested where it is installed.
"""

import asyncio
import json
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from tests.clouds import ACCESS, SECRET, chunk, exception, fault, streams
from tests.fake_clouds import CLOUDS, NEW_CLAUDE, NOVA, TOKEN, cloud_server
from tests.sdk_clients.upstreams import CALLS, OUTPUT, TEXT
from tests.sdks import PLAIN

ASKED = {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@pytest.fixture(autouse=True)
def no_other_credentials(monkeypatch, tmp_path):
    """Keep the SDKs from reading this machine's own credentials."""
    for name, value in {
        "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"), "HOME": str(tmp_path),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)


async def asked(sdk, model: str, *, stream: bool):
    """Ask one of Anthropic's clients; return text, calls and output tokens."""
    async with sdk:
        if stream:
            async with sdk.messages.stream(model=model, **ASKED) as answer:
                message = await answer.get_final_message()
        else:
            message = await sdk.messages.create(model=model, **ASKED)
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    return text, calls, message.usage.output_tokens


SAID = (TEXT, CALLS, OUTPUT)


@both_ways
@pytest.mark.parametrize("signed", [True, False], ids=["sigv4", "bearer"])
async def test_anthropic_bedrock(stream, signed):
    if signed or stream:
        pytest.importorskip("boto3", reason="boto3 is not installed")
    import anthropic

    cloud = CLOUDS["bedrock invoke, new Claude, bearer"]
    keys = {"aws_access_key": ACCESS, "aws_secret_key": SECRET} if signed else {"api_key": "ABSK-good-key"}  # fmt: skip
    async with cloud_server(cloud) as server:
        client = anthropic.AsyncAnthropicBedrock(
            base_url=server.url, aws_region="us-east-1", max_retries=0, **keys,
            http_client=anthropic.DefaultAsyncHttpxClient(verify=PLAIN),
        )  # fmt: skip
        assert await asked(client, cloud.model, stream=stream) == SAID
    path = cloud.stream_path if stream else cloud.whole_path
    assert [heard.path for heard in server.heard] == [path]


async def test_anthropic_bedrock_with_a_wrong_key():
    import anthropic

    async with cloud_server(CLOUDS["bedrock invoke, new Claude, bearer"]) as server:
        client = anthropic.AsyncAnthropicBedrock(
            base_url=server.url, aws_region="us-east-1", max_retries=0, api_key="ABSK-other",
            http_client=anthropic.DefaultAsyncHttpxClient(verify=PLAIN),
        )  # fmt: skip
        with pytest.raises(anthropic.PermissionDeniedError):
            await asked(client, NEW_CLAUDE, stream=False)


async def test_anthropic_bedrock_reads_an_exception_of_the_stream():
    pytest.importorskip("boto3", reason="boto3 is not installed")
    import anthropic

    start = {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}}  # fmt: skip
    broken = streams(chunk(start), exception("throttlingException", "Too many tokens."))
    async with cloud_server(CLOUDS["bedrock invoke, new Claude, bearer"], broken) as server:
        client = anthropic.AsyncAnthropicBedrock(
            base_url=server.url, aws_region="us-east-1", max_retries=0, api_key="ABSK-good-key",
            http_client=anthropic.DefaultAsyncHttpxClient(verify=PLAIN),
        )  # fmt: skip
        with pytest.raises(anthropic.APIStatusError, match="Too many tokens"):
            await asked(client, NEW_CLAUDE, stream=True)


@both_ways
async def test_anthropic_bedrock_mantle(stream):
    pytest.importorskip("boto3", reason="boto3 is not installed")
    import anthropic

    async with cloud_server(CLOUDS["bedrock mantle"]) as server:
        client = anthropic.AsyncAnthropicBedrockMantle(
            base_url=f"{server.url}/anthropic", aws_region="us-east-1", max_retries=0,
            aws_access_key=ACCESS, aws_secret_key=SECRET,
            http_client=anthropic.DefaultAsyncHttpxClient(verify=PLAIN),
        )  # fmt: skip
        assert await asked(client, NEW_CLAUDE, stream=stream) == SAID


@both_ways
async def test_anthropic_vertex(stream):
    import anthropic

    def check(heard) -> str:
        right = (
            heard.headers.get("authorization") == f"Bearer {TOKEN}" and "model" not in heard.json
        )
        return "" if right and heard.json["anthropic_version"] == "2026-10-21" else "401"

    cloud = replace(CLOUDS["vertex claude"], check=check)
    async with cloud_server(cloud) as server:
        client = anthropic.AsyncAnthropicVertex(
            base_url=f"{server.url}/v1", project_id="p-1", region="europe-west1", max_retries=0,
            access_token=TOKEN, http_client=anthropic.DefaultAsyncHttpxClient(verify=PLAIN),
        )  # fmt: skip
        assert await asked(client, "claude-sonnet-4-5@20250929", stream=stream) == SAID
    path = cloud.stream_path if stream else cloud.whole_path
    assert [heard.path for heard in server.heard] == [path]


@both_ways
async def test_anthropic_foundry(stream):
    import anthropic

    async with cloud_server(CLOUDS["foundry claude"]) as server:
        client = anthropic.AsyncAnthropicFoundry(
            base_url=f"{server.url}/anthropic", api_key=TOKEN, max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(verify=PLAIN),
        )  # fmt: skip
        assert await asked(client, "claude-opus-5-5", stream=stream) == SAID


@both_ways
async def test_azure_openai(stream):
    import openai

    cloud = CLOUDS["azure deployment"]
    async with cloud_server(cloud) as server:
        client = openai.AsyncAzureOpenAI(
            azure_endpoint=server.url, api_key=TOKEN, api_version="2025-04-01-preview", max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=PLAIN),
        )  # fmt: skip
        async with client:
            turns = ASKED["messages"]
            answer = await client.chat.completions.create(model="prod-chat", messages=turns, stream=stream)  # fmt: skip
            if stream:
                deltas = [c.choices[0].delta async for c in answer if c.choices]
                text = "".join(delta.content or "" for delta in deltas)
            else:
                text = answer.choices[0].message.content
    assert text == TEXT
    assert [heard.path for heard in server.heard] == [cloud.whole_path]


@both_ways
async def test_google_genai_with_vertex(stream):
    from google import genai
    from google.oauth2.credentials import Credentials

    cloud = CLOUDS["vertex gemini"]
    async with cloud_server(cloud) as server:
        client = genai.Client(
            vertexai=True, project="p-1", location="europe-west1", credentials=Credentials(TOKEN),
            http_options={"base_url": server.url, "async_client_args": {"verify": PLAIN}, "client_args": {"verify": PLAIN}},
        )  # fmt: skip
        models = client.aio.models
        if stream:
            pieces = await models.generate_content_stream(model=cloud.model, contents="hi")
            answers = [piece async for piece in pieces]
        else:
            answers = [await models.generate_content(model=cloud.model, contents="hi")]
        await client.aio.aclose()
    parts = [p for a in answers for c in a.candidates for p in c.content.parts]
    assert "".join(p.text for p in parts if p.text and not p.thought) == TEXT
    assert [(p.function_call.name, p.function_call.args) for p in parts if p.function_call] == CALLS
    path = cloud.stream_path if stream else cloud.whole_path
    assert [heard.path for heard in server.heard] == [path]


# ── boto3 ────────────────────────────────────────────────────────────────────


@contextmanager
def boto(url: str, secret: str = SECRET):
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    with closing(
        boto3.client(
            "bedrock-runtime", region_name="us-east-1", endpoint_url=url,
            aws_access_key_id=ACCESS, aws_secret_access_key=secret,
        )
    ) as client:  # fmt: skip
        yield client


TURN = [{"role": "user", "content": [{"text": "hi"}]}]
CONVERSE = replace(CLOUDS["bedrock converse"], check=fault)


@both_ways
async def test_boto3_reads_converse(stream):
    def ask(url: str):
        with boto(url) as client:
            return talk(client)

    def talk(client):
        if not stream:
            found = client.converse(modelId=NOVA, messages=TURN)
            blocks = found["output"]["message"]["content"]
            calls = [
                (b["toolUse"]["name"], b["toolUse"]["input"]) for b in blocks if "toolUse" in b
            ]
            return "".join(b.get("text", "") for b in blocks), calls, found["usage"]["outputTokens"]
        events = list(client.converse_stream(modelId=NOVA, messages=TURN)["stream"])
        deltas = [e["contentBlockDelta"]["delta"] for e in events if "contentBlockDelta" in e]
        starts = [e["contentBlockStart"]["start"]["toolUse"] for e in events if "contentBlockStart" in e]  # fmt: skip
        pieces = "".join(d["toolUse"]["input"] for d in deltas if "toolUse" in d)
        inputs = [json.loads(text) for text in pieces.replace("}{", "}\0{").split("\0")]
        calls = list(zip((s["name"] for s in starts), inputs, strict=True))
        return "".join(d.get("text", "") for d in deltas), calls, events[-1]["metadata"]["usage"]["outputTokens"]  # fmt: skip

    async with cloud_server(CONVERSE) as server:
        assert await asyncio.to_thread(ask, server.url) == SAID
    (heard,) = server.heard
    assert heard.path.replace("%3A", ":") == (
        CONVERSE.stream_path if stream else CONVERSE.whole_path
    )


async def test_boto3_is_rejected_with_a_wrong_secret():
    def ask(url: str):
        with boto(url, "wrong") as client:
            wrong = client.exceptions.ClientError
            with pytest.raises(wrong, match="InvalidSignatureException"):
                client.converse(modelId=NOVA, messages=TURN)

    async with cloud_server(CONVERSE) as server:
        await asyncio.to_thread(ask, server.url)


async def test_boto3_reads_an_exception_of_the_stream():
    def ask(url: str):
        with boto(url) as client:
            answer = client.converse_stream(modelId=NOVA, messages=TURN)
            with pytest.raises(client.exceptions.ClientError, match="Too many tokens"):
                list(answer["stream"])
            answer["stream"].close()

    async with cloud_server(CONVERSE, streams(exception("throttlingException", "Too many tokens."))) as server:  # fmt: skip
        await asyncio.to_thread(ask, server.url)
