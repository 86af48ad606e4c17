"""Calls while they are written: the codecs track them, `toolbridge.stream` shows them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbridge import codecs
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Call
from toolbridge.sdk.pi.events import PiEncoder


def chunk(*calls: dict, text: str = "", finish: str | None = None) -> bytes:
    """Return a chunk of an OpenAI chat stream."""
    delta = {"content": text} if text else {"tool_calls": list(calls)}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()


def begin(index: int, id: str, name: str) -> dict:
    return {"index": index, "id": id, "function": {"name": name, "arguments": ""}}


def more(index: int, arguments: str) -> dict:
    return {"index": index, "function": {"arguments": arguments}}


def told(*chunks: bytes) -> list:
    """Return pi's events of an answer that arrives in these chunks."""
    decoder, encoder = codecs.load("openai_chat").stream_decoder(Ids("calls")), PiEncoder()
    events = [event for piece in chunks for event in decoder.feed(piece)] + decoder.close()
    return [event for said in events for event in encoder.feed(said)] + encoder.close()


@pytest.mark.req("ZG-01", "ZG-02")
def test_a_growing_call_has_the_text_and_the_value_so_far():
    events = told(
        chunk(begin(0, "a", "weather")),
        chunk(more(0, '{"city": ')),
        chunk(more(0, '"Par')),
        chunk(more(0, 'is"}'), finish="tool_calls"),
    )
    grown = [event.partial.content[0] for event in events if event.type.startswith("toolcall")]
    assert [(call.raw, call.arguments) for call in grown] == [
        ("", {}),
        ('{"city": ', {}),
        ('{"city": "Par', {"city": "Par"}),
        ('{"city": "Paris"}', {"city": "Paris"}),
        ("", {"city": "Paris"}),
    ]


@pytest.mark.req("ZG-02")
@given(st.lists(st.text(max_size=6), max_size=8))
def test_no_arguments_make_a_growing_call_raise(pieces):
    written = [chunk(more(0, piece)) for piece in pieces]
    events = told(chunk(begin(0, "a", "f")), *written, chunk(finish="tool_calls"))
    partials = [event.partial.content[0] for event in events if event.type == "toolcall_delta"]
    assert all(isinstance(call.arguments, dict) for call in partials)
    assert "".join(event.delta for event in events if event.type == "toolcall_delta") == "".join(
        pieces
    )


@pytest.mark.req("ZG-03", "ZG-04", "ZG-05")
def test_calls_are_kept_apart_by_the_index_of_the_api():
    events = told(
        chunk(text="Two things."),
        chunk(begin(7, "a", "read")),
        chunk(begin(3, "b", "write")),
        chunk(more(7, '{"x"')),
        chunk(more(3, '{"y": "')),
        chunk(more(7, ": 1}")),
        chunk(more(3, 'z"}'), finish="tool_calls"),
    )
    starts = {e.content_index: e for e in events if e.type == "toolcall_start"}
    assert [(at, e.partial.content[at].id, e.partial.content[at].name) for at, e in starts.items()] == [
        (1, "a", "read"),
        (2, "b", "write"),
    ]  # fmt: skip
    deltas = [(e.content_index, e.delta) for e in events if e.type == "toolcall_delta"]
    assert deltas == [(1, '{"x"'), (2, '{"y": "'), (1, ": 1}"), (2, 'z"}')]
    ends = {e.content_index: e.tool_call for e in events if e.type == "toolcall_end"}
    assert ends == {1: Call("a", "read", {"x": 1}), 2: Call("b", "write", {"y": "z"})}


@pytest.mark.req("ZG-03")
def test_an_unfinished_call_is_kept_as_text_and_not_completed():
    cut = chunk(more(0, '{"path": "/tmp'), finish="length")
    message = told(chunk(begin(0, "a", "rm")), cut)[-1].message
    assert message.content == (Call("a", "rm", raw='{"path": "/tmp'),)


@pytest.mark.req("ZG-03")
def test_a_call_without_arguments_has_none():
    message = told(chunk(begin(0, "a", "now"), finish="tool_calls"))[-1].message
    assert message.content == (Call("a", "now", {}),)
