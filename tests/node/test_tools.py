"""Tools for a model behind a node: told in its prompt, found in its text by the usual stages."""

import pytest
from tests.node.server import Scene
from tests.node.sessions import reading, session_with

from toolbridge.core import events as ev
from toolbridge.core.codec import Target
from toolbridge.core.fold import collect
from toolbridge.core.messages import Call, Request, Text, Thinking, Tool, Turn
from toolbridge.dialects.prompt import render_history
from toolbridge.node.protocol.encode_request import encode_request
from toolbridge.node.session.exchange import Prompt
from toolbridge.translate import PreparedRequest, answer_stages

WRITE = Tool(
    "Write",
    "Writes a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
REQUEST = Request("m", (Turn("user", (Text("write a.txt"),)),), (Text("Be brief."),), (WRITE,))


async def answered(texts):
    """Return what a client is told and what the node was sent."""
    ready = render_history(REQUEST, "hermes_json")
    outgoing = encode_request(ready, Target("m"))
    stages = answer_stages(
        REQUEST, PreparedRequest(outgoing, ready, (), {}, REQUEST.tools), model="m", seed=b"s"
    )
    async with session_with() as (session, node, _):
        node.play(Scene(texts))
        events: list[ev.Event] = []
        async with reading(session.answer(Prompt(outgoing.body))) as batches:
            async for batch in batches:
                events += [said for event in batch for said in stages.feed(event)]
        events += stages.close()
    return collect(events), node.heard[0].prompt["prompt"]


CALL = '<tool_call>\n{"name": "Write", "arguments": {"path": "a.txt"}}\n</tool_call>'


@pytest.mark.req("CB-29", "CB-32")
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_call_in_the_text_of_a_node_is_a_call(size):
    text = f"Sure.\n{CALL}"
    pieces = tuple(text[at : at + size] for at in range(0, len(text), size))
    message, sent = await answered(pieces)
    assert [(type(part), getattr(part, "name", "")) for part in message.content] == [
        (Text, ""),
        (Call, "Write"),
    ]
    assert message.calls[0].arguments == {"path": "a.txt"}
    assert message.stop == "tool_use"
    assert sent.startswith("<|im_start|>system\nBe brief.")
    assert '"name": "Write"' in sent


async def test_a_thought_in_the_text_of_a_node_is_a_thought():
    message, _ = await answered(("<think>", "hm", "</think>", "Done."))
    assert [type(part) for part in message.content] == [Thinking, Text]
    assert message.thinking.strip() == "hm"
