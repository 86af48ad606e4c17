"""The JavaScript SDKs and the Vercel AI SDK read a search that the gateway runs."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.real.clients import HOME, NODE, clean_environment, npm_install
from tests.real.test_js_sdks import PACKAGES
from tests.real.test_server_tools import config_of, last_role, scripted

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parent / "js" / "server_tools.mjs"
SDKS = {
    "anthropic", "openai_responses", "genai",
    "vercel_anthropic", "vercel_openai_responses", "vercel_google",
}  # fmt: skip


def searching(asked: dict) -> str | dict:
    """Search first, with the function that the request offers, then answer."""
    if last_role(asked) == "tool":
        return "In Switzerland, says [Alpha page](https://example.org/a)."
    name = asked["tools"][0]["function"]["name"]
    return {"name": name, "arguments": {"query": "zürich"}}


def test_each_reads_the_search_and_the_answer(serve, tmp_path):
    npm_install("node", NODE)
    place = npm_install("js", *PACKAGES)
    script = shutil.copy(SCRIPT, place / SCRIPT.name)  # beside the packages that it imports
    node = HOME / "node" / "node_modules" / ".bin" / "node"
    with scripted(searching) as server:
        done = subprocess.run(
            [str(node), str(script), serve(config_of(server))],
            env=clean_environment(str(tmp_path)) | {"AI_SDK_LOG_WARNINGS": "false"},
            cwd=place, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.split("\n") if line.startswith("{")]
    assert {one["sdk"] for one in found} == SDKS, done.stdout + done.stderr
    for one in found:
        assert one["error"] is None, one
        assert one["text"].endswith("says [Alpha page](https://example.org/a)."), one
        assert "https://example.org/a" in one["urls"], one
        if one["sdk"] not in {"vercel_openai_responses", "vercel_google"}:  # they keep no query
            assert one["queries"] == ["zürich"], one
    assert len(server.searches) == len(SDKS)
