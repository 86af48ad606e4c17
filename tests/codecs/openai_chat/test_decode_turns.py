import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.openai_chat.decode_request import decode_request
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Opaque,
    Result,
    Text,
    Thinking,
    Turn,
)


def decode(*messages):
    return decode_request(json.dumps({"model": "m", "messages": messages}).encode())


def parts(*content, role="user"):
    return (
        decode({"role": "user", "content": "."}, {"role": role, "content": list(content)})
        .turns[1]
        .content
    )


def call(id, name="f", arguments="{}", **fields):
    return {
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
        **fields,
    }


def test_what_the_system_says_first_is_the_system():
    request = decode(
        {"role": "system", "content": "A"},
        {
            "role": "developer",
            "content": [{"type": "text", "text": "B"}, {"type": "text", "text": "C"}],
        },
        {"role": "user", "content": "Hi"},
        {"role": "developer", "content": "D"},
    )
    assert request.system == (Text("A"), Text("B"), Text("C"))
    assert request.turns == (Turn("user", (Text("Hi"),)), Turn("system", (Text("D"),)))


@every_row(
    ("part", "expected"),
    [
        ({"type": "text", "text": "a"}, Text("a")),
        ({"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}, Text("a", cache="5m")),
        ({"type": "text", "text": "a", "prompt_cache_breakpoint": {"ttl": "12h"}}, Text("a", cache="1h")),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}}, Image(data="aGk=", media_type="image/png", detail="low")),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a"}}, Image(url="https://example.org/a")),
        ({"type": "image_url", "image_url": "https://example.org/a"}, Image(url="https://example.org/a")),
        ({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}, Audio("aGk=", "audio/wav")),
        ({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}}, Audio("aGk=", "audio/mpeg")),
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}}, Document(data="aGk=", media_type="application/pdf", title="a.pdf")),
        ({"type": "file", "file": {"file_data": "aGk="}}, Document(data="aGk=", media_type="application/pdf")),
        ({"type": "file", "file": {"file_id": "file_1"}}, Document(file_id="file_1")),
        ({"type": "hologram", "x": 1}, Foreign("openai_chat", "hologram", {"type": "hologram", "x": 1})),
    ],
)  # fmt: skip
def test_a_part_is_a_part(part, expected):
    assert parts(part) == (expected,)


@pytest.mark.parametrize("content", [None, "", []])
def test_content_may_be_nothing(content):
    assert decode({"role": "user", "content": content}).turns == (Turn("user", ()),)


@every_row(
    ("arguments", "expected"),
    [
        ('{"p":1}', Call("a", "f", {"p": 1})),
        ("", Call("a", "f")),
        (None, Call("a", "f")),
        ({"p": 1}, Call("a", "f", {"p": 1})),
        ("{'p': 1}", Call("a", "f", raw="{'p': 1}")),
        ("[1]", Call("a", "f", raw="[1]")),
        ([1], Call("a", "f", raw="[1]")),
    ],
)
def test_arguments_of_the_past_are_read_or_left_as_they_are(arguments, expected):
    request = decode(
        {"role": "assistant", "content": None, "tool_calls": [call("a", "f", arguments)]}
    )
    assert request.turns == (Turn("assistant", (expected,)),)


def test_results_make_one_turn_with_what_the_user_says_next():
    request = decode(
        {"role": "assistant", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "two", "name": "f"},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "one"}]},
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": "Done."},
    )
    assert request.turns[1:] == (
        Turn("user", (Result("b", (Text("two"),), name="f"), Result("a", (Text("one"),)), Text("Go on."))),
        Turn("assistant", (Text("Done."),)),
    )  # fmt: skip


@every_row(
    ("content", "expected"),
    [
        ("", Result("a")),
        (None, Result("a")),
        ("Error: no", Result("a", (Text("no"),), is_error=True)),
        ("Error: ", Result("a", is_error=True)),
        ("An Error: no", Result("a", (Text("An Error: no"),))),
    ],
)
def test_a_result_may_be_empty_or_an_error(content, expected):
    request = decode({"role": "tool", "tool_call_id": "a", "content": content})
    assert request.turns == (Turn("user", (expected,)),)


def test_a_legacy_result_finds_its_call_by_name():
    told = (
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "f", "arguments": '{"p":1}'},
        },
        {"role": "function", "name": "f", "content": "one"},
    )
    request = decode(*told)
    (asked,), (result,) = (turn.content for turn in request.turns)
    assert (asked.name, asked.arguments, result.call_id) == ("f", {"p": 1}, asked.id)
    assert decode(*told) == request


def test_a_call_without_an_id_gets_the_same_one_every_time():
    told = {"role": "assistant", "tool_calls": [call("", "f"), call("", "f")]}
    first, second = decode(told).turns[0].content
    assert first.id != second.id
    assert decode(told).turns[0].content == (first, second)


def test_free_text_is_an_object_with_an_input():
    custom = {"id": "a", "type": "custom", "custom": {"name": "patch", "input": "x"}}
    request = decode({"role": "assistant", "tool_calls": [custom]})
    assert request.turns[0].content == (Call("a", "patch", {"input": "x"}),)


def test_a_signature_of_gemini_stays_with_its_call():
    signed = call("a", extra_content={"google": {"thought_signature": "s"}})
    (found,) = decode({"role": "assistant", "tool_calls": [signed]}).turns[0].content
    assert found.opaque == (Opaque("openai_chat", "thought_signature", "s"),)


SIGNED = {"type": "reasoning.text", "text": "A", "signature": "s"}
BARE = {"type": "reasoning.text", "signature": "s"}


@pytest.mark.req("ZG-12")
@every_row(
    ("fields", "thoughts"),
    [
        ({"reasoning_content": "A"}, (Thinking("A"),)),
        ({"reasoning": "A"}, (Thinking("A"),)),
        ({"reasoning_details": [SIGNED]}, (Thinking("A", (Opaque("openai_chat", "signature", "s"),)),)),
        ({"reasoning": "A", "reasoning_details": [BARE]}, (Thinking("A", (Opaque("openai_chat", "signature", "s"),)),)),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "z"}]}, (Thinking("", (Opaque("openai_chat", "redacted", "z"),)),)),
        # Two seals of one text: nobody can say which part each of them seals.
        ({"reasoning": "AB", "reasoning_details": [BARE, BARE]}, (Thinking("AB"),)),
        ({"reasoning_details": [BARE, BARE]}, ()),
        (
            {"reasoning": "AA", "reasoning_details": [SIGNED, SIGNED]},
            (Thinking("A", (Opaque("openai_chat", "signature", "s"),)),) * 2,
        ),
        ({"reasoning_content": None, "reasoning_details": []}, ()),
    ],
)  # fmt: skip
def test_thoughts_of_the_past_are_thoughts(fields, thoughts):
    request = decode({"role": "assistant", "content": "Hi", **fields})
    assert request.turns[0].content == (*thoughts, Text("Hi"))


def test_a_detail_with_a_name_is_kept_whole():
    detail = {
        "type": "reasoning.encrypted",
        "data": "z",
        "id": "rs_1",
        "format": "openai-responses-v1",
        "index": 0,
    }
    (thought,) = decode({"role": "assistant", "reasoning_details": [detail]}).turns[0].content
    (seal,) = thought.opaque
    assert (seal.kind, json.loads(seal.value)) == ("item", detail)


def test_a_refusal_of_the_past_is_text():
    request = decode({"role": "assistant", "content": None, "refusal": "No."})
    assert request.turns[0].content == (Text("No."),)
    assert parts({"type": "refusal", "refusal": "No."}, role="assistant") == (Text("No."),)


def test_what_a_message_says_of_itself_is_kept():
    request = decode(
        {"role": "user", "name": "ada", "content": "Hi", "mood": "good", "audio": None}
    )
    assert request.turns[0].content == (
        Text("Hi"),
        Foreign("openai_chat", "message", {"mood": "good", "name": "ada"}),
    )


def test_what_an_sdk_writes_back_of_its_own_accord_is_nothing():
    request = decode(
        {"role": "assistant", "content": "Hi", "refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None}
    )  # fmt: skip
    assert request.turns == (Turn("assistant", (Text("Hi"),)),)
