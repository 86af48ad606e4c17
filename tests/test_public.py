"""The contract that other people's scripts rely on."""

import toolbridge

TOOLS = [
    {"name": "w", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
]
TEXT = '<think>hm</think>Sure é.<tool_call>{"name":"w","arguments":{"city":"Zürich"}}</tool_call>'


def test_read_text_takes_tools_as_objects():
    reading = toolbridge.read_text(TEXT, TOOLS)
    assert (reading.content.strip(), reading.reasoning.strip()) == ("Sure é.", "hm")
    assert [(c.name, c.arguments) for c in reading.calls] == [("w", {"city": "Zürich"})]
    assert toolbridge.read_text(TEXT, TOOLS, dialect="hermes_json").calls == reading.calls


def test_text_reader_takes_bytes_cut_anywhere():
    data = TEXT.encode()
    reader = toolbridge.TextReader(TOOLS)
    events = [e for i in range(len(data)) for e in reader.feed(data[i : i + 1])] + reader.close()
    message = toolbridge.collect(events)
    assert [c.arguments for c in message.calls] == [{"city": "Zürich"}]
    assert message.stop == "tool_use"


def test_heal_answers_with_value_level_and_steps():
    healing = toolbridge.heal("{'a': 1,}")
    assert (healing.value, healing.level) == ({"a": 1}, 1)
    assert all(step.what and step.level for step in healing.steps)


def test_translate_is_a_stage():
    stage = toolbridge.translate("ollama", "openai_chat")
    line = b'{"message":{"role":"assistant","content":"Hi"},"done":true,"done_reason":"stop"}\n'
    assert b"[DONE]" in b"".join(stage.feed(line) + stage.close())


def test_events_of_structured_streams_have_the_names_of_the_wire():
    events = toolbridge.stream_events
    for name, kind in events.NAMES.items():
        assert getattr(events, "".join(part.capitalize() for part in name.split("."))) is kind
