"""Real coding agents, each with its own API in front and another one behind."""

import pytest
from tests.real.clients import CLIENTS, WANT, run

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

# Claude Code has more of its own in test_claude_code.py.
DEMO = '[map]\ndefault = "demo"\n'
OTHERS = [name for name in CLIENTS if name != "claude"]


@pytest.mark.req("CL-01", "CL-02")
@pytest.mark.parametrize("name", OTHERS)
def test_a_client_creates_a_file_with_the_demo_model(serve, tmp_path, name):
    done = run(CLIENTS[name], serve(DEMO), tmp_path / "work")
    assert done.file is not None, done.output
    assert done.file.strip() == WANT
    assert done.status == 0, done.output


PROVIDERS = {
    "openai_chat": (
        'api = "openai_chat"\nurl = "{url}/v1"\n'
        'quirks = { tool_choice_named = false, thinking_format = "llamacpp",'
        ' thinking_field = "reasoning_content", system_in_place = false }'
    ),
    "anthropic": 'api = "anthropic"\nurl = "{url}"',
    "openai_responses": 'api = "openai_responses"\nurl = "{url}/v1"',
}


@pytest.mark.req("CL-01", "CL-02")
@pytest.mark.parametrize(
    ("name", "behind"),
    [
        ("claude", "openai_chat"),
        ("claude", "openai_responses"),
        ("claude", "anthropic"),
        ("codex", "openai_chat"),
        ("qwen", "openai_chat"),
        ("copilot", "openai_chat"),
        ("gemini", "openai_chat"),
        ("opencode-anthropic", "openai_chat"),
        ("opencode-chat", "anthropic"),
        ("opencode-responses", "openai_chat"),
        ("opencode-gemini", "openai_responses"),
    ],
)
def test_a_client_runs_its_shell_with_a_foreign_api_behind(serve, tiny, tmp_path, name, behind):
    place = PROVIDERS[behind].replace("{url}", tiny.url)
    url = serve(f'[map]\ndefault = "there/tiny"\n[providers.there]\n{place}\n')
    prompt = f"[[tool]] go, {name} over {behind}"
    done = run(CLIENTS[name], url, tmp_path / "work", prompt=prompt)
    assert "The result came back!" in done.output
    assert done.status == 0, done.output
    results = [seen.rpartition("<tool_response>")[2] for seen in tiny.prompts() if prompt in seen]
    assert any("tiny-ok" in result for result in results), "the shell's own output went back"
