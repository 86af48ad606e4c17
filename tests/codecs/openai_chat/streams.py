"""Streams of the API, built and read."""

import json

from tests.properties import grammar

from toolbridge.codecs.openai_chat.decode_stream import StreamDecoder
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids

DONE = b"data: [DONE]\n\n"


def frame(value):
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta=None, finish=None, **fields):
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return frame({"id": "chatcmpl-1", "model": "m", "choices": [choice], **fields})


def calls(*entries, **delta):
    return chunk({"tool_calls": list(entries), **delta})


def entry(index=None, id=None, name=None, arguments=None, **fields):
    function = {"name": name, "arguments": arguments}
    told = {"function": {key: value for key, value in function.items() if value is not None}}
    told |= {} if index is None else {"index": index}
    return told | ({} if id is None else {"id": id}) | fields


def decode(data):
    """Return the events of `data`; check that they are legal and the same one byte at a time."""
    whole = grammar.run(StreamDecoder(Ids("seed")), [data])
    grammar.check(whole)
    slow = grammar.run(StreamDecoder(Ids("seed")), [bytes([byte]) for byte in data])
    assert grammar.joined(slow) == grammar.joined(whole)
    return whole


def message(*frames, finish="stop"):
    end = chunk({}, finish) + DONE if finish else b""
    return collect(decode(b"".join(frames) + end))
