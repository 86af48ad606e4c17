"""Frames taken apart, changed and put together again."""

from hypothesis import strategies as st
from tests.properties.grammar import run

from toolbridge.core.json import dump_bytes, loads
from toolbridge.wire.ndjson import LineReader
from toolbridge.wire.sse import SseReader, write_event

STRANGE = {"brand_new": {"x": [1, None, {"type": "brand_new"}]}}
_OURS = {"arguments", "input", "args", "schema"}
"""What the model wrote: a name more in there is not a stranger but a change."""


def framed(codec, data):
    """The frames of `data`: value and event name."""
    if "event-stream" in codec.content_type:
        return [(_maybe_json(frame.data), frame.event) for frame in run(SseReader(), [data])]
    return [(_maybe_json(line), "") for line in run(LineReader(), [data])]


def _maybe_json(data):
    try:
        return loads(data)
    except ValueError:
        return data


def unframed(codec, frames):
    out = b""
    for value, event in frames:
        data = value if isinstance(value, bytes) else dump_bytes(value)
        sse = "event-stream" in codec.content_type
        out += write_event(data, event.encode()) if sse else data + b"\n"
    return out


def with_strangers(value):
    if isinstance(value, list):
        return [with_strangers(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {name: item if name in _OURS else with_strangers(item) for name, item in value.items()}
    return STRANGE | inner | {"also_new": None}


@st.composite
def mutations(draw, data):
    """`data`, with some of it cut out, doubled, overwritten or replaced."""
    for _ in range(draw(st.integers(1, 3))):
        a = draw(st.integers(0, len(data)))
        b = draw(st.integers(a, min(len(data), a + 40)))
        middle = draw(
            st.sampled_from([b"", data[a:b] * 2, b'"', b"{}", b"null", b"[1]", b"\n\n", b"\xff"])
            | st.binary(max_size=4)
        )
        data = data[:a] + middle + data[b:]
    return data


@st.composite
def swapped(draw, value):
    if isinstance(value, dict) and value and draw(st.sampled_from([True, True, True, False])):
        name = draw(st.sampled_from(sorted(value)))
        return value | {name: draw(swapped(value[name]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        return [draw(swapped(value[0])), *value[1:]]
    return draw(st.sampled_from([None, True, 0, -1, 2**70, 0.5, "", "x", [], {}, [{}], [None]]))
