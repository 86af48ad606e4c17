"""Models that print their calls, break their JSON, or have no tools of their own, end to end."""

import json

import pytest
from tests.peers import bridged, replay
from tests.server.test_messages import body, events, line, post

WRITE = {
    "name": "Write",
    "description": "Writes a file.",
    "input_schema": {
        "type": "object",
        "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["file_path", "content"],
    },
}
PRINTED = '<tool_call>\n{"name": "Write", "arguments": {"file_path": "a.txt", "content": "x</tool_call>"}}\n</tool_call>'


def said(text: str, size: int = 5):
    pieces = [line(text[i : i + size]) for i in range(0, len(text), size)]
    return replay(*pieces, line(done=True))


@pytest.mark.req("CB-31", "CB-32", "CB-33")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_that_was_printed_becomes_a_call(stream):
    async with bridged(said("Sure.\n" + PRINTED)) as (url, *_):
        if stream:
            found, _ = await events(url, body(tools=[WRITE]))
            starts = [e["content_block"] for e in found if e["type"] == "content_block_start"]
            assert [s["type"] for s in starts] == ["text", "tool_use"]
            deltas = [e["delta"] for e in found if e["type"] == "content_block_delta"]
            given = "".join(d["partial_json"] for d in deltas if d["type"] == "input_json_delta")
            assert found[-2]["delta"]["stop_reason"] == "tool_use"
        else:
            _, reply = await post(url, body(tools=[WRITE], stream=False))
            assert [b["type"] for b in reply["content"]] == ["text", "tool_use"]
            given = json.dumps(reply["content"][1]["input"])
            assert reply["stop_reason"] == "tool_use"
    assert json.loads(given) == {"file_path": "a.txt", "content": "x</tool_call>"}


@pytest.mark.req("CB-34")
async def test_without_tools_text_stays_text():
    async with bridged(said(PRINTED)) as (url, *_):
        _, reply = await post(url, body(stream=False))
    assert [b["type"] for b in reply["content"]] == ["text"]
    assert reply["content"][0]["text"] == PRINTED


async def test_a_fenced_example_stays_text():
    text = f"Like this:\n```\n{PRINTED}\n```\n"
    async with bridged(said(text)) as (url, *_):
        _, reply = await post(url, body(tools=[WRITE], stream=False))
    assert reply["content"] == [{"type": "text", "text": text}] or (
        reply["content"][0]["text"].strip() == text.strip()
    )
    assert reply["stop_reason"] == "end_turn"


@pytest.mark.req("CB-29", "CB-35")
async def test_a_model_without_tools_is_told_of_them_and_understood():
    messages = [
        {"role": "user", "content": "write it"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "t1", "name": "Write", "input": {"file_path": "a", "content": "b"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "written"}]},
    ]  # fmt: skip
    show = {"capabilities": ["completion"]}
    async with bridged(said(PRINTED), show=show) as (url, server, _):
        request = body(tools=[WRITE], messages=messages, system="Be brief.", stream=False)
        answer, reply = await post(url, request)
    sent = server.chats()[0].json
    assert "tools" not in sent
    assert sent["messages"][0]["role"] == "system"
    assert sent["messages"][0]["content"].startswith("Be brief.")
    assert "Write" in sent["messages"][0]["content"]
    assert "file_path" in sent["messages"][0]["content"]
    assert "<tool_call>" in sent["messages"][0]["content"]
    assert "<tool_call>" in sent["messages"][2]["content"]
    assert "written" in sent["messages"][3]["content"]
    assert reply["content"][0]["input"]["file_path"] == "a.txt"
    assert "no tools of its own" in answer.headers["x-toolbridge-warning"]


@pytest.mark.req("PX-X10", "PX-X4", "PX-24")
async def test_what_was_healed_is_said_in_a_header_and_counted():
    call = {"function": {"name": "Write", "arguments": '{"path": "a.txt", "content": "b",}'}}
    chat = replay(line("", tool_calls=[call]), line(done=True))
    async with bridged(chat) as (url, *_):
        answer, reply = await post(url, body(tools=[WRITE], stream=False))
        metrics, text = await get(url, "/metrics")
    assert reply["content"][0]["input"] == {"file_path": "a.txt", "content": "b"}
    assert "Write" in answer.headers["x-toolbridge-healed"]
    assert "toolbridge_healed_total{" in text
    assert metrics == 200


async def test_a_call_that_is_cut_by_the_limit_is_not_run():
    half = '<tool_call>\n{"name": "Write", "arguments": {"file_path": "a.txt", "content": "half'
    done = line(done=True) | {"done_reason": "length"}
    async with bridged(replay(line(half), done)) as (url, *_):
        _, reply = await post(url, body(tools=[WRITE], stream=False))
    assert reply["stop_reason"] == "max_tokens"
    assert not [b for b in reply["content"] if b["type"] == "tool_use"]


async def get(url: str, path: str) -> tuple[int, str]:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(url + path) as answer:
        return answer.status, await answer.text()
