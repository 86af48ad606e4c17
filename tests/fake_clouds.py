"""Fake clouds: what each verifies of a request, and the same answer from all of them."""

import json
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.clouds import AWS_ENV, STREAM, aws_error, chunk, event, fault
from tests.peers import Answer, Heard, Line, model_server, whole
from tests.sdk_clients import upstreams
from tests.sdk_clients.upstreams import CACHED, CALLS, OUTPUT, TEXT, THOUGHT

TOKEN = "ya29.a-good-token-of-an-hour"
ECHO = ("/bin/echo", TOKEN)
CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NEW_CLAUDE = "anthropic.claude-opus-5-5"
NOVA = "amazon.nova-2-lite-v1:0"
VERTEX = "/projects/p-1/locations/europe-west1/publishers"


@dataclass(frozen=True)
class Cloud:
    """One way to reach a model in a cloud."""

    provider: str
    model: str
    api: str
    stream_path: str
    whole_path: str
    check: Callable[[Heard], str]
    """Returns what is wrong with a request; empty for a right one."""
    settings: Mapping[str, object] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    secret_headers: frozenset[str] = frozenset({"authorization"})
    answer: Answer | None = None


def _converse(*, stream: bool) -> bytes:
    counts = {"inputTokens": 11, "outputTokens": OUTPUT, "totalTokens": 49, "cacheReadInputTokens": CACHED}  # fmt: skip
    if not stream:
        thought = {"reasoningText": {"text": THOUGHT, "signature": "c2VhbA=="}}
        calls = [
            {"toolUse": {"toolUseId": f"tooluse_{n}", "name": name, "input": args}}
            for n, (name, args) in enumerate(CALLS)
        ]
        content = [{"reasoningContent": thought}, {"text": TEXT}, *calls]
        reply = {"output": {"message": {"role": "assistant", "content": content}}}
        return json.dumps(reply | {"stopReason": "tool_use", "usage": counts}).encode()
    messages = [event("messageStart", {"role": "assistant"})]

    def add(index: int, *deltas: dict) -> None:
        at = {"contentBlockIndex": index}
        messages.extend(event("contentBlockDelta", at | {"delta": d}) for d in deltas)
        messages.append(event("contentBlockStop", at))

    add(0, {"reasoningContent": {"text": THOUGHT}}, {"reasoningContent": {"signature": "c2VhbA=="}})
    add(1, {"text": TEXT})
    for n, (name, args) in enumerate(CALLS):
        tool = {"toolUse": {"toolUseId": f"tooluse_{n}", "name": name}}
        messages.append(event("contentBlockStart", {"contentBlockIndex": n + 2, "start": tool}))
        text = json.dumps(args)
        add(n + 2, {"toolUse": {"input": text[:5]}}, {"toolUse": {"input": text[5:]}})
    messages.append(event("messageStop", {"stopReason": "tool_use"}))
    messages.append(event("metadata", {"usage": counts, "metrics": {"latencyMs": 5}}))
    return b"".join(messages)


def _invoke(*, stream: bool) -> bytes:
    body = upstreams.ANSWERS["anthropic"](stream=stream)
    if not stream:
        return body
    lines = [line for line in body.decode().split("\n") if line.startswith("data: ")]
    return b"".join(chunk(json.loads(line.removeprefix("data: "))) for line in lines)


def _event_stream(write: Callable[..., bytes]) -> Answer:
    async def answer(heard: Heard, line: Line) -> None:
        stream = heard.path.endswith("-stream")
        await line.head(200, STREAM if stream else "application/json")
        data = write(stream=stream)
        for at in range(0, len(data), 211):
            await line.send(data[at : at + 211])
        await line.end()

    return answer


def _is_invoke(version: str) -> Callable[[Heard], str]:
    def check(heard: Heard) -> str:
        if wrong := fault(heard):
            return wrong
        body = heard.json
        if {"model", "stream"} & body.keys() or body.get("anthropic_version") != version:
            return "ValidationException"
        return "" if body["max_tokens"] else "ValidationException"

    return check


def _is_converse(heard: Heard) -> str:
    wrong = fault(heard)
    extra = heard.json.keys() - {
        "messages", "system", "inferenceConfig", "toolConfig", "outputConfig",
        "additionalModelRequestFields",
    }  # fmt: skip
    return wrong or ("ValidationException" if extra else "")


def _is_mantle(heard: Heard) -> str:
    wrong = fault(heard, service="bedrock-mantle")
    return wrong or ("" if heard.json["model"] == NEW_CLAUDE else "ValidationException")


def _is_vertex(heard: Heard) -> str:
    if heard.headers.get("authorization") != f"Bearer {TOKEN}":
        return "401"
    body = heard.json
    if "/publishers/anthropic/" not in heard.path:
        return "" if all(turn.get("role") for turn in body["contents"]) else "400"
    right = body.get("anthropic_version") == "vertex-2023-10-16" and "model" not in body
    return "" if right and "anthropic-version" not in heard.headers else "400"


def _is_express(heard: Heard) -> str:
    return "" if heard.headers.get("x-goog-api-key") == TOKEN else "401"


def _is_azure(heard: Heard) -> str:
    headers = heard.headers
    if headers.get("api-key") != TOKEN and headers.get("authorization") != f"Bearer {TOKEN}":
        return "401"
    return "" if heard.json["model"] in {"gpt-5.5", "prod-chat"} else "404"


def _is_foundry(heard: Heard) -> str:
    keys = {heard.headers.get("api-key"), heard.headers.get("x-api-key")}
    return "" if keys == {TOKEN} and heard.headers.get("anthropic-version") else "401"


def _both(path: str) -> dict[str, str]:
    return {"stream_path": path, "whole_path": path}


_AZURE_KEY = {"key": TOKEN}
_GOOGLE = {"project": "p-1", "location": "europe-west1", "token_command": ECHO}
CLOUDS = {
    "bedrock invoke": Cloud(
        "bedrock", CLAUDE, "anthropic",
        f"/model/{CLAUDE}/invoke-with-response-stream", f"/model/{CLAUDE}/invoke",
        _is_invoke("bedrock-2023-05-31"), env=AWS_ENV, answer=_event_stream(_invoke),
    ),
    "bedrock invoke, new Claude, bearer": Cloud(
        "bedrock", f"eu.{NEW_CLAUDE}", "anthropic",
        f"/model/eu.{NEW_CLAUDE}/invoke-with-response-stream", f"/model/eu.{NEW_CLAUDE}/invoke",
        _is_invoke("2026-10-21"), settings={"key": "ABSK-good-key", "region": "eu-west-1"},
        answer=_event_stream(_invoke),
    ),
    "bedrock converse": Cloud(
        "bedrock", NOVA, "bedrock", f"/model/{NOVA}/converse-stream", f"/model/{NOVA}/converse",
        _is_converse, env=AWS_ENV | {"AWS_SESSION_TOKEN": "IQoJb3JpZ2luEX"},
        answer=_event_stream(_converse),
    ),
    "bedrock mantle": Cloud(
        "mantle", NEW_CLAUDE, "anthropic", **_both("/anthropic/v1/messages"),
        check=_is_mantle, env=AWS_ENV,
    ),
    "vertex gemini": Cloud(
        "vertex", "gemini-3.8-flash", "gemini",
        f"/v1beta1{VERTEX}/google/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
        f"/v1beta1{VERTEX}/google/models/gemini-3.8-flash:generateContent",
        _is_vertex, _GOOGLE,
    ),
    "vertex express": Cloud(
        "vertex", "gemini-3.8-flash", "gemini",
        "/v1beta1/publishers/google/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
        "/v1beta1/publishers/google/models/gemini-3.8-flash:generateContent",
        _is_express, env={"GOOGLE_API_KEY": TOKEN}, secret_headers=frozenset({"x-goog-api-key"}),
    ),
    "vertex claude": Cloud(
        "vertex", "claude-sonnet-4-5-20250929", "anthropic",
        f"/v1{VERTEX}/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict",
        f"/v1{VERTEX}/anthropic/models/claude-sonnet-4-5@20250929:rawPredict",
        _is_vertex, _GOOGLE,
    ),
    "azure responses": Cloud(
        "azure", "gpt-5.5", "openai_responses", **_both("/openai/v1/responses"),
        check=_is_azure, settings=_AZURE_KEY, secret_headers=frozenset({"api-key"}),
    ),
    "azure chat, entra": Cloud(
        "azure", "prod-chat", "openai_chat", **_both("/openai/v1/chat/completions"),
        check=_is_azure, settings={"token_command": ECHO},
    ),
    "azure deployment": Cloud(
        "azure", "prod-chat", "openai_chat",
        **_both("/openai/deployments/prod-chat/chat/completions?api-version=2025-04-01-preview"),
        check=_is_azure, settings=_AZURE_KEY | {"api_version": "2025-04-01-preview"},
        secret_headers=frozenset({"api-key"}),
    ),
    "foundry claude": Cloud(
        "foundry", "claude-opus-5-5", "anthropic", **_both("/anthropic/v1/messages"),
        check=_is_foundry, settings=_AZURE_KEY,
        secret_headers=frozenset({"api-key", "x-api-key"}),
    ),
}  # fmt: skip


@asynccontextmanager
async def cloud_server(cloud: Cloud, answer: Answer | None = None):
    """Serve a fake cloud; `answer` replaces its answer to right requests."""

    async def serve(heard: Heard, line: Line) -> None:
        wrong = cloud.check(heard)
        if not wrong:
            await (answer or cloud.answer or upstreams.answering(cloud.api))(heard, line)
        elif wrong.isdecimal():
            await whole(line, {"error": {"code": int(wrong), "message": "wrong"}}, int(wrong))
        else:
            await aws_error(line, wrong, "wrong", 400 if wrong == "ValidationException" else 403)

    async with model_server(serve) as server:
        yield server
