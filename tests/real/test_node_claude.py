"""The real Claude Code creates a file through a model on an encrypted node."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from tests.node.gateways import PUBLIC
from tests.node.server import Node, Scene, running
from tests.real.clients import CLAUDE_CODE, WANT, run

from toolbridge.node.protocol.encryption import Decryptor
from toolbridge.node.protocol.messages import Payload

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

MODEL = "someone/Tiny-GGUF:Tiny-Q4.gguf"
MARK = "I write it now."


class WritingNode(Node):
    """A node whose model writes the file that it is asked for, as text, then says so."""

    def __init__(self, work: Path) -> None:
        super().__init__()
        self.work = work

    async def _prompt(self, socket, message) -> None:
        payload = msgspec.convert(message["payload"], Payload)
        opened = payload.open(Decryptor(self.keys[message["session_id"]]), payload.label)
        self.play(Scene(_pieces(self._answer(json.loads(opened)["prompt"]))))
        await super()._prompt(socket, message)

    def _answer(self, prompt: str) -> str:
        if MARK in prompt:
            return "<think>It is there.</think>The file is written."
        if "Write" not in prompt or "hello.txt" not in prompt:
            return "A file"  # a side question, for a title
        arguments = {"file_path": f"{self.work}/hello.txt", "content": WANT}
        call = json.dumps({"name": "Write", "arguments": arguments})
        return f"<think>A file, then.</think>{MARK}\n<tool_call>\n{call}\n</tool_call>"


def _pieces(text: str) -> tuple[str, ...]:
    return tuple(text[at : at + 4] for at in range(0, len(text), 4))


@pytest.mark.req("CB-37", "CB-29", "CB-35")
@pytest.mark.parametrize("framing", ["chatml", "labelled"])
async def test_claude_code_creates_a_file_with_a_node_behind(serve, tmp_path, framing):
    work = tmp_path / "work"
    async with running(WritingNode(work)) as node:
        url = await asyncio.to_thread(serve, _config(node, framing))
        done = await asyncio.to_thread(run, CLAUDE_CODE, url, work)
    assert done.file is not None, done.output
    assert done.file.strip() == WANT
    assert done.status == 0, done.output
    assert "The file is written." in done.output
    assert "<think>" not in done.output
    told = [heard.prompt["prompt"] for heard in node.heard]
    assert any(MARK in prompt for prompt in told)  # the call and its result went back to the node
    assert node.connections == 1


def _config(node: Node, framing: str) -> str:
    return f"""
[providers.mynode]
api = "node"
quirks = {{ framing = "{framing}" }}
[providers.mynode.node]
model = "{MODEL}"
host_url = "{node.url}"
host_key = "{PUBLIC}"
"""
