"""A part knows how the client wrote it, as long as nothing changes it."""

import msgspec
from msgspec.structs import replace

from toolbridge.core.messages import Call, Opaque, Origin, Result, Text, Tool, Turn
from toolbridge.core.source import own_words, sourced, unknown_fields, without_sources

RAW = {"type": "text", "text": "a", "new": 1}


def text(**more) -> Text:
    return sourced(Text("a", **more), Origin("x", "messages.0.content.0", RAW, ("new",)))


def test_an_unchanged_part_is_written_as_the_client_did_in_its_own_api_alone():
    assert own_words(text(), "x") == RAW
    assert own_words(text(), "y") is None
    assert own_words(Text("a"), "x") is None


def test_a_changed_part_keeps_its_unknown_fields():
    changed = replace(text(), text="b")
    assert own_words(changed, "x") is None
    assert unknown_fields(changed, "x") == {"new": 1}
    assert unknown_fields(changed, "y") == {}


def test_raw_json_is_read_when_it_is_needed():
    raw = msgspec.Raw(b'{"name":"f"}')
    assert own_words(sourced(Tool("f"), Origin("x", "tools.0", raw)), "x") == {"name": "f"}


def test_a_source_makes_no_difference_and_no_circle():
    part = text(opaque=(Opaque("x", "item", "i"),))
    assert part == replace(part, source=None)
    again = sourced(replace(part, text="c"), part.source)
    assert again.source.of.source is None
    msgspec.json.encode(again)


def test_a_result_that_history_named_is_unchanged():
    raw = {"tool_use_id": "c"}
    result = sourced(Result("c"), Origin("x", "messages.1.content.0", raw))
    assert own_words(replace(result, name="f"), "x") == raw
    assert own_words(replace(result, call_id="d"), "x") is None


def test_stored_parts_have_no_sources():
    source = Origin("x", "p")
    result = Result("c", (Text("a", source=source),), source=source)
    found = without_sources((Turn("user", (result, Call("c", "f", source=source))),))
    assert "source" not in msgspec.json.encode(found).decode()
