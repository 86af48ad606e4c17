"""The official JavaScript SDKs and the Vercel AI SDK, in front of the demo model and llama.cpp."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.real.clients import HOME, NODE, clean_environment, npm_install
from tests.sdks import WEATHER

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parent / "js" / "sdks.mjs"
PACKAGES = (
    "@anthropic-ai/sdk@1.8.0",
    "openai@7.53.0",
    "@google/genai@2.32.0",
    "ollama@0.6.4",
    "ai@7.0.169",
    "@ai-sdk/anthropic@4.0.102",
    "@ai-sdk/openai@4.0.114",
    "@ai-sdk/openai-compatible@3.0.90",
    "@ai-sdk/google@4.0.117",
    "zod@4.6.7",
)
SDKS = {
    "anthropic", "anthropic_whole", "openai_chat", "openai_responses", "genai", "ollama",
    "vercel_anthropic", "vercel_openai_responses", "vercel_openai_chat", "vercel_compatible",
    "vercel_google",
}  # fmt: skip


def run_all(url: str, home: Path, prompt: str, tool: dict) -> dict[str, dict]:
    """Return what each SDK saw, by its name."""
    npm_install("node", NODE)
    place = npm_install("js", *PACKAGES)
    # Beside the packages, where its imports are found.
    script = shutil.copy(SCRIPT, place / SCRIPT.name)
    home.mkdir()
    env = clean_environment(str(home)) | {
        "PROMPT": prompt, "TOOL": json.dumps(tool), "AI_SDK_LOG_WARNINGS": "false",
    }  # fmt: skip
    done = subprocess.run(
        [str(HOME / "node" / "node_modules" / ".bin" / "node"), str(script), url], env=env, cwd=place, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.split("\n") if line.startswith("{")]
    assert {one["sdk"] for one in found} == SDKS, done.stdout + done.stderr
    return {one["sdk"]: one for one in found}


def test_each_writes_a_file_with_the_demo_model(serve, tmp_path):
    schema = {
        "type": "object",
        "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["file_path", "content"],
    }
    tool = {"name": "write_file", "schema": schema}
    prompt = "Create the file /tmp/notes.txt with exactly this content: hello"
    for sdk, seen in run_all(
        serve('[map]\ndefault = "demo"'), tmp_path / "home", prompt, tool
    ).items():
        assert seen["error"] is None, seen
        assert [call["name"] for call in seen["calls"]] == ["write_file"], sdk
        assert seen["calls"][0]["args"] == {"file_path": "/tmp/notes.txt", "content": "hello"}, sdk
        assert seen["text"], sdk
        assert len(seen["stops"]) == 2, sdk


def test_each_calls_twice_at_once_with_llamacpp_behind(serve, tiny, tmp_path):
    url = serve(
        '[map]\ndefault = "llamacpp/tiny"\n'
        f'[providers.llamacpp]\napi = "openai_chat"\nurl = "{tiny.url}/v1"\n'
    )
    tool = {"name": "get_weather", "schema": WEATHER}
    for sdk, seen in run_all(url, tmp_path / "home", "[[tool2]] go", tool).items():
        assert seen["error"] is None, seen
        cities = sorted(call["args"]["city"] for call in seen["calls"])
        assert cities == ["Berlin", "Rome"], sdk
        assert seen["text"] == "The result came back!", sdk
