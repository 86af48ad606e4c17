"""What a dialect writes, it reads again: any tools, any arguments, in any company."""

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.dialects.cases import pieces, same
from tests.examples import examples

from toolbridge.core.fold import collect
from toolbridge.core.messages import Call, Tool
from toolbridge.dialects import load, names
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.partial_marks import STOPS
from toolbridge.dialects.reader import TextReader

DIALECTS = [name for name in names() if name not in {"kimi_think", "think_tags"}]
UNQUOTES = {"glm45", "glm47", "hunyuan_v3", "ling3", "poolside_v1"}
"""The dialects in which quotes around a whole value are markup."""
UNTYPED = {"minimax_m3"}
"""The dialects whose nested values have no types."""
FRAGMENTS = (
    "a", "Paris", "x y", "\n", "  ", '"', "'", "<", ">", "&", "&lt;", "\\", "日本", "🎌", "{", "}", "[",
    "]", "(", ")", ",", ":", "=", ";", "|", "`", "```", "<b>", "</b>", "null", "true", "42", "-1.5",
    "None", "\t", "key: value", "city:", "days=2", "<|", "|>", "$name", "${x}", "$$", "\r\n", "\u2028",
    "<![CDATA[", "]]>", "\\n", '\\"', "1e5",
)  # fmt: skip
TEXT = st.lists(st.sampled_from(FRAGMENTS), max_size=5).map("".join)
KEYS = st.sampled_from(["a", "b", "key", "my_key", "x1"])
SCALAR = st.none() | st.booleans() | st.sampled_from([0, 1, -7, 3.5, -0.25, 1e20]) | TEXT
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
PARAMETERS = {
    "city": ({"type": "string"}, TEXT),
    "body": ({"type": "string"}, TEXT),
    "days": ({"type": "integer"}, st.sampled_from([0, 1, -5, 10**15])),
    "ratio": ({"type": "number"}, st.sampled_from([0.5, -2.25, 3, 1e-7])),
    "metric": ({"type": "boolean"}, st.booleans()),
    "tags": ({"type": "array"}, st.lists(VALUE, max_size=3)),
    "opts": ({"type": "object"}, st.dictionaries(KEYS, VALUE, max_size=3)),
}
SCHEMA = {"type": "object", "properties": {key: schema for key, (schema, _) in PARAMETERS.items()}}
NAMES = ("get_weather", "search", "f", "mcp__srv__do_it", "Read", "create-issue", "a.b", "tool_2")
ARGUMENTS = st.fixed_dictionaries({}, optional={k: value for k, (_, value) in PARAMETERS.items()})
CALLS = st.lists(st.tuples(st.sampled_from(NAMES), ARGUMENTS), min_size=1, max_size=3)
COMPANY = ("alone", "before", "after", "stop")


def may_be_lost(dialect: str, key: str, value: object) -> bool:
    """Tell whether the format of a dialect cannot express `value`."""
    if dialect in UNTYPED:
        return key in {"tags", "opts"}
    quoted = isinstance(value, str) and value[:1] in {'"', "'"} and value.endswith(value[:1])
    return dialect in UNQUOTES and quoted


@pytest.mark.req("CB-30", "CB-31")
@pytest.mark.parametrize("some", [DIALECTS[at::5] for at in range(5)], ids=str)
@settings(max_examples=examples(100))
@given(
    calls=CALLS,
    company=st.sampled_from(COMPANY),
    stop=st.sampled_from(STOPS),
    cut=st.sampled_from(["whole", "by char", "by 7"]),
)
def test_calls_are_read_as_they_were_written(some, calls, company, stop, cut):
    """Each example is written in several dialects: to draw one takes longer than to read it."""
    for dialect in some:
        note(dialect)
        check_dialect(dialect, calls, company, stop, cut)


def check_dialect(dialect: str, drawn: list, company: str, stop: str, cut: str) -> None:
    calls = [
        Call(
            f"call0000{at}",
            name,
            {k: v for k, v in arguments.items() if not may_be_lost(dialect, k, v)},
        )
        for at, (name, arguments) in enumerate(drawn)
    ]
    if not isinstance(load(dialect).reader, MarkReader) and company != "stop":
        company = "alone"  # no text is outside of the frames
    text = load(dialect).render.calls(calls)
    text = {
        "alone": text,
        "before": f"Let me check.\n{text}",
        "after": f"{text}\nDone.",
        "stop": text + stop,
    }[company]
    reader = TextReader([Tool(name, schema=SCHEMA) for name in NAMES], dialect=dialect)
    events = [event for piece in pieces(text, cut) for event in reader.feed(piece)]
    message = collect(events + reader.close())
    assert message.text.strip() == {"before": "Let me check.", "after": "Done."}.get(company, "")
    assert [call.name for call in message.calls] == [call.name for call in calls]
    for read, written in zip(message.calls, calls, strict=True):
        assert same(written.arguments, read.arguments), (written.arguments, read)
