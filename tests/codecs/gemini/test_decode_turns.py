import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.gemini.decode_request import decode_request
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
)

SIGNATURE = (Opaque("gemini", "thought_signature", "c2ln"),)


def turns(*contents):
    return decode_request(json.dumps({"contents": contents}).encode(), model="m").turns


def parts(*given, role="user"):
    return turns({"role": role, "parts": given})[0].content


@every_row(
    ("role", "ours"),
    [
        ("user", "user"), ("model", "assistant"), ("function", "user"), (None, "user"),
        ("", "user"), ("system", "system"), ("assistant", "assistant"), ("tool", "user"),
    ],
)  # fmt: skip
def test_roles(role, ours):
    assert turns({"role": role, "parts": [{"text": "x"}]})[0].role == ours


@pytest.mark.req("ZG-20")
@every_row(
    ("given", "expected"),
    [
        ({"text": "a"}, [Text("a")]),
        ({"text": ""}, []),
        ({}, []),
        ({"text": "a", "thoughtSignature": "c2ln"}, [Text("a", opaque=SIGNATURE)]),
        ({"text": "t", "thought": True}, [Thinking("t")]),
        ({"text": "t", "thought": True, "thoughtSignature": "c2ln"}, [Thinking("t", SIGNATURE)]),
        ({"text": "", "thoughtSignature": "c2ln"}, [Thinking("", SIGNATURE)]),
        ({"thoughtSignature": "c2ln"}, [Thinking("", SIGNATURE)]),
        ({"inlineData": {"mimeType": "image/png", "data": "AA=="}}, [Image("AA==", "image/png")]),
        (
            {
                "inlineData": {"mimeType": "image/png", "data": "AA=="},
                "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"},
            },
            [Image("AA==", "image/png", detail="high")],
        ),
        ({"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}, [Audio("AA==", "audio/wav")]),
        (
            {"inlineData": {"mimeType": "application/pdf", "data": "AA==", "displayName": "T"}},
            [Document("AA==", "application/pdf", title="T")],
        ),
        (
            {"inlineData": {"mimeType": "text/plain", "data": "aGk="}},
            [Document(text="hi", media_type="text/plain")],
        ),
        (
            {"fileData": {"mimeType": "image/png", "fileUri": "https://x.org/a"}},
            [Image(url="https://x.org/a", media_type="image/png")],
        ),
        (
            {"fileData": {"fileUri": "https://x.org/a.pdf?x=1"}},
            [Document(url="https://x.org/a.pdf?x=1", media_type="application/pdf")],
        ),
    ],
)
def test_parts(given, expected):
    assert list(parts(given, role="model")) == expected


@every_row(
    "raw",
    [
        {"thoughtSignature": "c2ln", "toolCall": {"id": "1", "args": {"a_b": 1}}},
        {"inlineData": {"mimeType": "video/mp4", "data": "AA=="}, "videoMetadata": {"fps": 1}},
        {"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"}},
        {"brandNew": 1},
    ],
)
def test_what_only_gemini_understands_is_kept_whole(raw):
    kind = next(key for key in raw if key != "thoughtSignature")
    assert parts(raw) == (Foreign("gemini", kind, raw),)


@every_row(
    "word",
    [
        "skip_thought_signature_validator",
        "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
        "context_engineering_is_the_way_to_go",
        "",
    ],
)
def test_a_placeholder_is_no_signature(word):
    call = {"functionCall": {"id": "1", "name": "f"}, "thoughtSignature": word}
    assert parts(call, role="model") == (Call("1", "f"),)


def test_a_call_keeps_its_signature():
    call = {"functionCall": {"id": "1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    assert parts(call, role="model") == (Call("1", "f", {"a": 1}, opaque=SIGNATURE),)


@every_row(
    ("response", "text", "is_error"),
    [
        ({"output": "ok"}, "ok", False),
        ({"output": {"a": 1}}, '{"a":1}', False),
        ({"output": None}, "", False),
        ({"error": "bad"}, "bad", True),
        ({"error": ["x"]}, '["x"]', True),
        ({"result": 5}, '{"result":5}', False),
        ({"output": "a", "error": "b"}, '{"output":"a","error":"b"}', False),
        ({}, "", False),
        (None, "", False),
    ],
)
def test_a_response_is_unwrapped(response, text, is_error):
    (result,) = parts({"functionResponse": {"id": "1", "name": "f", "response": response}})
    content = (Text(text),) if text else ()
    assert result == Result("1", content, is_error=is_error, name="f")


def test_a_response_may_hold_pictures():
    picture = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
    given = {"id": "1", "name": "f", "response": {"output": "see"}, "parts": [picture]}
    (result,) = parts({"functionResponse": given})
    assert result.content == (Text("see"), Image("AA==", "image/png"))


def test_results_stand_in_front():
    response = {"functionResponse": {"id": "1", "name": "f", "response": {"output": "x"}}}
    assert [type(part) for part in parts({"text": "a"}, response)] == [Result, Text]


def asked(*names):
    return {"role": "model", "parts": [{"functionCall": {"name": name}} for name in names]}


def answered(*names):
    given = [{"functionResponse": {"name": n, "response": {"output": n}}} for n in names]
    return {"role": "user", "parts": given}


def test_results_without_ids_find_their_calls_by_name_then_by_order():
    calls, results = turns(asked("a", "b", "a"), answered("b", "a", "a"))
    first, second, third = (call.id for call in calls.content)
    assert [result.call_id for result in results.content] == [second, first, third]


def test_a_result_of_another_name_takes_the_first_call_that_waits():
    calls, results = turns(asked("a", "b"), answered("x", "b"))
    assert [r.call_id for r in results.content] == [call.id for call in calls.content]


def test_made_up_ids_are_the_same_each_time_and_differ_from_each_other():
    history = (asked("a", "a"), answered("a", "a"), asked("a"), answered("a"))
    once = turns(*history)
    assert once == turns(*history)
    ids = [part.id for turn in once for part in turn.content if isinstance(part, Call)]
    assert len(set(ids)) == 3


def test_a_result_without_any_call_still_has_an_id():
    (turn,) = turns(answered("a"))
    assert turn.content[0].call_id


@every_row(
    ("given", "texts"),
    [
        ("Be brief.", ["Be brief."]),
        ({"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}, ["a", "b"]),
        ([{"text": "a"}], ["a"]),
        ({"parts": [{"text": ""}, {"inlineData": {}}]}, []),
        ("", []),
        (None, []),
    ],
)
def test_the_system_speaks_in_texts(given, texts):
    body = {"contents": "Hi", "systemInstruction": given}
    request = decode_request(json.dumps(body).encode(), model="m")
    assert [part.text for part in request.system] == texts
