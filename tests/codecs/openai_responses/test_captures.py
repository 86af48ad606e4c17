"""What real clients sent, where the recordings of them are at hand."""

import json
from pathlib import Path

import pytest
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.codecs.openai_responses import CODEC
from toolbridge.core.codec import Target

CAPTURES = Path(__file__).parents[3] / ".." / "shared" / "clients" / "captures"


def bodies():
    found = []
    for path in sorted(CAPTURES.glob("*.json")):
        capture = json.loads(path.read_text())
        if capture.get("path") == "/v1/responses":
            found.append(pytest.param(capture["body"], id=path.stem))
    absent = pytest.param(None, marks=pytest.mark.skip(reason=f"no captures at {CAPTURES}"))
    return found or [absent]


def plain(value):
    """`value` without what says nothing: nulls, and the several ways to write one message."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {name: plain(item) for name, item in value.items() if item is not None}
    if "role" in value:
        spoken = value["role"] == "assistant"
        text = {"type": "output_text" if spoken else "input_text"}
        if isinstance(value["content"], str):
            value["content"] = [text | {"text": value["content"]}]
        more = {"annotations": []} if spoken else {}
        value = {"type": "message", **value, "content": [more | p for p in value["content"]]}
    if isinstance(value.get("arguments"), str):
        value["arguments"] = json.loads(value["arguments"])
    return value


@pytest.mark.req("CL-02")
@pytest.mark.parametrize("body", bodies())
def test_what_a_real_client_sends_goes_on_without_loss(body):
    request = CODEC.decode_request(json.dumps(body).encode())
    sent = CODEC.encode_request(request, Target())
    assert sent.losses == ()
    always = {"store": False, "include": ["reasoning.encrypted_content"]}
    said = {name: value for name, value in body.items() if value != "auto"}
    assert plain(sent.body) == plain(always | said)


@pytest.mark.req("CL-02")
@pytest.mark.parametrize("body", bodies())
@every_row("name", codecs.names())
def test_what_a_real_client_sends_can_be_said_in_every_api(name, body):
    request = CODEC.decode_request(json.dumps(body).encode())
    sent = codecs.load(name).encode_request(request, Target(model="m"))
    own = name == CODEC.name
    functions = {tool.name for tool in request.tools if tool.hosted is None}
    functions -= {tool.name for tool in request.tools if own and (tool.namespace or tool.native)}
    assert functions <= set(named(sent.body))


def named(value):
    """Every name in a body, wherever its API puts it."""
    if isinstance(value, list):
        return [name for item in value for name in named(item)]
    if not isinstance(value, dict):
        return []
    inside = [name for item in value.values() for name in named(item)]
    return [*inside, *([value["name"]] if isinstance(value.get("name"), str) else [])]
