"""What real clients sent: read, and written again without a loss."""

import json
from pathlib import Path

import pytest

from toolbridge.codecs.gemini import CODEC
from toolbridge.core.codec import Target

HOME = Path(__file__).parents[3] / "../shared/clients/captures"
CAPTURES = sorted([*HOME.glob("gemini_cli_*.json"), *HOME.glob("opencode_gemini_*.json")])
PLACEHOLDER = "skip_thought_signature_validator"


def part(given):
    """A call without an id gets one, and a placeholder where its signature is missing."""
    given = {key: value for key, value in given.items() if value != PLACEHOLDER}
    for name in ("functionCall", "functionResponse"):
        if name in given:
            given[name] = {key: value for key, value in given[name].items() if key != "id"}
    return given


def declaration(given):
    schema = given.get("parametersJsonSchema", given.get("parameters"))
    rest = {key: value for key, value in given.items() if not key.startswith("parameters")}
    return rest | {"schema": schema}


def normal(body):
    body = json.loads(json.dumps(body))
    for content in body["contents"]:
        content["parts"] = [part(given) for given in content["parts"]]
    body.get("systemInstruction", {}).pop("role", None)
    for tool in body.get("tools", ()):
        tool["functionDeclarations"] = [declaration(d) for d in tool["functionDeclarations"]]
    if body.get("toolConfig") == {"functionCallingConfig": {"mode": "AUTO"}}:
        del body["toolConfig"]
    return body


def ids(body):
    return [
        given[name]["id"]
        for content in body["contents"]
        for given in content["parts"]
        for name in ("functionCall", "functionResponse")
        if "id" in given.get(name, {})
    ]


@pytest.mark.req("CL-01", "CL-02")
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_captured_request_is_written_as_it_was_read(path):
    capture = json.loads(path.read_text("utf-8"))
    model, _, method = capture["path"].removeprefix("/v1beta/models/").partition(":")
    body = capture["body"]
    request = CODEC.decode_request(
        json.dumps(body).encode(), model=model, stream=method.startswith("stream")
    )
    sent = CODEC.encode_request(request, Target(model=model))
    assert sent.path == capture["path"]
    assert sent.losses == ()
    assert normal(sent.body) == normal(body)
    assert not ids(body) or ids(sent.body) == ids(body)


def test_there_are_captures():
    if not CAPTURES:
        pytest.skip(f"{HOME} is not here")
    assert len(CAPTURES) >= 7
