"""What real clients sent: read, and written again without a loss."""

import json
from pathlib import Path

import pytest

from toolbridge.codecs.anthropic import CODEC
from toolbridge.core.codec import Target

HOME = Path(__file__).parents[3] / "../shared/clients/captures"
CAPTURES = sorted([*HOME.glob("claude_code_*.json"), *HOME.glob("opencode_anthropic_*.json")])


def body_of(path):
    capture = json.loads(path.read_text("utf-8"))
    body = capture["body"]
    return capture, body if isinstance(body, dict) and "messages" in body else None


def blocks(content):
    """A string says the same as one text block, and no content the same as an empty one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [settled(block) for block in content or ()]


def settled(block):
    if block["type"] == "tool_result":
        return {k: v for k, v in block.items() if k != "content"} | {
            "content": blocks(block.get("content"))
        }
    return block


def unsigned(block):
    return block["type"] == "thinking" and not block.get("signature")


def normal(body):
    messages = [
        message | {"content": [b for b in blocks(message["content"]) if not unsigned(b)]}
        for message in body["messages"]
    ]
    rest = {name: value for name, value in body.items() if name not in {"messages", "system"}}
    if rest.get("tool_choice") == {"type": "auto"}:
        del rest["tool_choice"]
    for name in ("tools", "stream"):
        if not rest.get(name):
            rest.pop(name, None)
    return rest | {"messages": messages, "system": blocks(body.get("system"))}


@pytest.mark.req("CL-02")
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_captured_request_is_written_as_it_was_read(path):
    capture, body = body_of(path)
    if body is None:
        pytest.skip(f"{path.name} holds no request to the model")
    counting = "count_tokens" in capture["path"]
    request = CODEC.decode_request(json.dumps(body).encode(), counting=counting)
    sent = CODEC.encode_request(request, Target())
    again = dict(sent.body)
    if counting:
        again.pop("max_tokens")
    assert normal(again) == normal(body)
    assert len(sent.losses) == sum(
        unsigned(b) for m in body["messages"] for b in blocks(m["content"])
    )


def test_there_are_captures():
    if not CAPTURES:
        pytest.skip(f"{HOME} is not here")
    assert len(CAPTURES) > 50
