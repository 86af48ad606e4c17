"""Requests of real clients, where they stand beside the repository."""

import json
from pathlib import Path

import pytest

from toolbridge import codecs
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.demo import answer

CAPTURES = Path(__file__).parents[2] / "../shared/clients/captures"
PROMPT = "/home/user/project/hello.txt with exactly this content: hello from gateway"
FIRST = [
    ("anthropic", "claude_code_claude-sonnet-4-5_0.json"),
    ("anthropic", "claude_code_gpt-oss-20b_0.json"),
    ("anthropic", "opencode_anthropic_1.json"),
    ("openai_chat", "opencode_chat_1.json"),
    ("openai_responses", "codex_0.json"),
    ("openai_responses", "codex_gpt-5-5_0.json"),
    ("openai_responses", "opencode_responses_1.json"),
    ("gemini", "gemini_cli_0.json"),
    ("gemini", "opencode_gemini_1.json"),
]


def captured(api, name):
    if not (CAPTURES / name).exists():
        pytest.skip(f"{name} is not beside this repository")
    if api not in codecs.names():
        pytest.skip(f"there is no codec for {api} yet")
    body = json.loads((CAPTURES / name).read_text())["body"]
    return codecs.load(api).decode_request(json.dumps(body).encode(), model="demo", stream=True)


@pytest.mark.parametrize(("api", "name"), FIRST)
def test_a_real_client_gets_its_file_written(api, name):
    (call,) = collect(answer(captured(api, name), Ids("x"))).calls
    written = json.dumps(call.arguments)
    assert "/home/user/project/hello.txt" in written
    assert "hello from gateway" in written
    assert PROMPT not in written


@pytest.mark.parametrize(
    ("api", "name"),
    [(api, name.replace("_1.", "_2.").replace("_0.", "_1.")) for api, name in FIRST],
)
def test_a_real_client_is_told_when_it_is_done(api, name):
    message = collect(answer(captured(api, name), Ids("x")))
    assert message.calls == ()
    assert "hello.txt" in message.text
