"""The loop guard over real sockets: a note at N, an error at 2N, in translation and passthrough."""

import json

import pytest
from tests.key_users import ask, team

BASH = {"name": "Bash", "description": "x", "input_schema": {"type": "object", "properties": {}}}


def repeated(count: int) -> list[dict]:
    turns: list[dict] = [{"role": "user", "content": "go"}]
    for n in range(count):
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {"command": "ls"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "nothing"}
        turns += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return turns


@pytest.mark.parametrize(("count", "status", "warned"), [(2, 200, False), (3, 200, True), (5, 200, True), (6, 400, False)])  # fmt: skip
async def test_the_model_gets_a_note_and_then_the_request_ends(tmp_path, count, status, warned):
    async with team(tmp_path, loop_guard=3) as (url, model):
        found, body, headers = await ask(url, messages=repeated(count), tools=[BASH])
        assert found == status, body
        assert ("a note for the model" in headers.get("x-toolbridge-warning", "")) == warned
        assert model.requests == (status == 200)
        sent = json.dumps(model.heard)
        assert ("the result was the same each time" in sent) == warned
    if status == 400:
        assert body["error"]["type"] == "invalid_request_error"
        assert "loop_guard = 3" in body["error"]["message"]


async def test_without_the_setting_nothing_is_added(tmp_path):
    async with team(tmp_path) as (url, _):
        status, _, headers = await ask(url, messages=repeated(30), tools=[BASH])
        assert (status, "x-toolbridge-warning" in headers) == (200, False)
