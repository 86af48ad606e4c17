"""A request to the API that it came in arrives as it was sent, at every level of it."""

import json
from functools import cache
from pathlib import Path

import pytest
from tests.properties.request_bodies import BODIES, at, body, objects
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.codec import Target
from toolbridge.translate import RequestOptions, plan

CAPTURES = Path(__file__).parents[2] / "../shared/clients/captures"
MODEL = "m"
FUTURE = {"level": [1, {"deep": None}]}
"""The value of a field that no version of this program has heard of."""

QUIRKS = {
    "openai_chat": {"thinking_field": "reasoning_content"},
    # By default a level is what a model is asked for; this client asks with a budget.
    "gemini": {"thinking_style": "budget"},
}
PATHS = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/api/chat": "ollama",
}


def sent(api: str, given: dict) -> dict:
    """Return the body that a provider of the same API gets."""
    codec = codecs.load(api)
    stream = given.get("stream") if api != "gemini" else True
    request = codec.decode_request(json.dumps(given).encode(), model=MODEL, stream=stream)
    leveled = api == "gemini" and "thinkingBudget" not in json.dumps(given)
    target = Target(model=MODEL, quirks={} if leveled else QUIRKS.get(api, {}))
    return json.loads(json.dumps(plan(request, codec, target, RequestOptions()).outgoing.body))


# ── named exceptions: what may differ, and why ───────────────────────────────


def _texts(api: str, value):
    """One text may be a string or a list of one text: every API documents them as the same."""
    kind = {"openai_responses": "input_text"}.get(api, "text")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        only = value[0]
        if set(only) <= {"type", "text"} and only.get("type", kind) in {kind, "output_text"}:
            return only["text"]
    return value


def _same(api: str, value):
    """Return `value` in one spelling: a field that is null is as good as absent."""
    if isinstance(value, list):
        return [_same(api, inner) for inner in value]
    if not isinstance(value, dict):
        return value
    found = {n: _same(api, v) for n, v in value.items() if v is not None}
    if found.get("thoughtSignature") == "skip_thought_signature_validator":
        del found["thoughtSignature"]  # Gemini 3 refuses a call without any signature
    for name in ("content", "output", "system"):
        if name in found:
            found[name] = _texts(api, found[name])
    if found.get("content") == "" and "tool_calls" in found:
        del found["content"]  # chat: an assistant that only calls may say nothing
    return found


def _settings(api: str, given: dict) -> dict:
    """Return a body without what the gateway itself decides about."""
    left = {n: v for n, v in given.items() if n not in {"model", "stream"}}
    if api == "openai_chat":
        # Chat: the provider's quirk names the limit; counts are always asked for.
        left["limit"] = left.pop("max_completion_tokens", None) or left.pop("max_tokens", None)
        left.setdefault("stream_options", {})["include_usage"] = True
        if left.get("tool_choice") == "auto":
            del left["tool_choice"]  # what happens without it
        stop = left.get("stop")
        left["stop"] = [stop] if isinstance(stop, str) else stop
    if api == "openai_responses":
        # Responses: thoughts are sent back sealed, so the seals are always asked for, and nothing
        # is stored upstream: this gateway keeps conversations itself.
        left["include"] = [*{*(left.get("include") or ()), "reasoning.encrypted_content"}]
        left["include"].sort()
        left.setdefault("store", False)
        if isinstance(left.get("input"), str):
            message = {"type": "message", "role": "user", "content": left["input"]}
            left["input"] = [message]
        for item in left["input"]:
            item.setdefault("type", "message")
        left.setdefault("tool_choice", "auto")
    if api == "gemini" and left.get("toolConfig") == {"functionCallingConfig": {"mode": "AUTO"}}:
        del left["toolConfig"]  # what happens without it
    if api == "anthropic" and left.get("tool_choice") == {"type": "auto"}:
        del left["tool_choice"]  # what happens without it
    return left


def _legal(api: str, given: dict) -> dict:
    """Return a body without what its API refuses: history takes that out."""
    if not given.get("tools", True):
        given = {n: v for n, v in given.items() if n != "tools"}  # no tools are no tools
    if api == "anthropic":
        for message in given["messages"]:
            if isinstance(message.get("content"), list):  # unsigned thoughts are refused
                message["content"] = [b for b in message["content"] if b.get("signature") != ""]
    return given


def same(api: str, given: dict) -> dict:
    return _same(api, _settings(api, _legal(api, given)))


# ── the law ──────────────────────────────────────────────────────────────────


@every_row("api", BODIES)
def test_a_request_arrives_as_it_was_sent(api):
    assert same(api, sent(api, body(api))) == same(api, body(api))


PLACES = [
    pytest.param(api, path, id=f"{api}-{'.'.join(map(str, path)) or 'top'}")
    for api in BODIES
    for path in objects(BODIES[api])
]


@every_row(("api", "path"), PLACES)
def test_an_unknown_field_arrives_wherever_it_stands(api, path):
    given = body(api)
    at(given, path)["xFuture"] = FUTURE
    assert at_future(same(api, sent(api, given))) == at_future(same(api, given)) != []


def at_future(value, path=()):
    """Return the path of every field `xFuture`."""
    if isinstance(value, dict):
        own = [path] if "xFuture" in value else []
        return own + [p for n, v in value.items() for p in at_future(v, (*path, n))]
    if isinstance(value, list):
        return [p for n, v in enumerate(value) for p in at_future(v, (*path, n))]
    return []


@cache
def captures():
    found = []
    for file in sorted(CAPTURES.glob("*.json")) if CAPTURES.exists() else ():
        capture = json.loads(file.read_text())
        path = capture.get("path", "").partition("?")[0]
        api = PATHS.get(path) or ("gemini" if "enerateContent" in path else "")
        if api and isinstance(capture.get("body"), dict):
            found.append(pytest.param(api, file, id=file.stem))
    return found or [pytest.param("", CAPTURES, id="none")]


@pytest.mark.parametrize(("api", "file"), captures())
def test_a_captured_request_arrives_as_it_was_sent(api, file):
    if not api:
        pytest.skip(f"there are no captures of clients at {file}")
    given = json.loads(file.read_text())["body"]
    assert same(api, sent(api, given)) == same(api, given)


@pytest.mark.parametrize("said", [{}, {"content": None}, {"content": "", "tool_calls": []}])
def test_what_an_api_refuses_is_put_right_for_the_same_api_too(said):
    # Chat Completions refuses an assistant without content, and an empty list of calls.
    empty = {"role": "assistant", "xFuture": 1, **said}
    user = {"role": "user", "content": "hi"}
    found = sent("openai_chat", {"model": "m", "messages": [user, empty, user]})
    assert found["messages"][1] == {"role": "assistant", "xFuture": 1, "content": ""}
