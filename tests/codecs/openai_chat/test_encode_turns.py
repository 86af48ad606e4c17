import base64

import pytest
from tests.tables import every_row

from toolbridge import providers
from toolbridge.codecs.openai_chat.encode_request import encode_request
from toolbridge.core.codec import Target
from toolbridge.core.json import loads
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Opaque,
    Reference,
    Request,
    Result,
    Text,
    Thinking,
    Tool,
    Turn,
)

PNG = Image(data="aGk=", media_type="image/png")
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def encode(*turns, quirks=None, capabilities=None, **fields):
    target = Target("m", quirks=quirks or {}, capabilities=capabilities)
    outgoing = encode_request(Request("m", turns, **fields), target)
    return outgoing.body["messages"], [loss.what for loss in outgoing.losses]


def user(*parts, **fields):
    return encode(Turn("user", parts), **fields)


def assistant(*parts, **fields):
    return encode(Turn("assistant", parts), **fields)


@pytest.mark.parametrize(("quirk", "role"), [(False, "system"), (True, "developer")])
def test_the_system_speaks_first_and_in_one_text(quirk, role):
    messages, _ = user(
        Text("Hi"), system=(Text("A"), Text("B", cache="5m")), quirks={"developer_role": quirk}
    )
    assert messages[0] == {"role": role, "content": "A\n\nB"}


def test_a_system_turn_stays_in_its_place_or_is_said_by_the_user():
    turns = Turn("user", (Text("Hi"),)), Turn("system", (Text("Now"),))
    assert encode(*turns)[0][1] == {"role": "system", "content": "Now"}
    messages, losses = encode(*turns, quirks={"system_in_place": False})
    assert messages[1] == {
        "role": "user",
        "content": "<system-reminder>\nNow\n</system-reminder>",
    }
    assert losses == ["turns.1"]


@every_row(
    ("parts", "content"),
    [
        ((), ""),
        ((Text("a"),), "a"),
        ((Text("a"), Text("b")), "a\nb"),
        ((Text("a"), PNG), [{"type": "text", "text": "a"}, SHOWN]),
        ((Image(url="https://example.org/a", detail="low"),), [{"type": "image_url", "image_url": {"url": "https://example.org/a", "detail": "low"}}]),
        ((Audio("aGk=", "audio/wav"),), [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}]),
        ((Audio("aGk=", "audio/mpeg"),), [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}}]),
        ((Document(data="aGk=", media_type="application/pdf"),), [{"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,aGk="}}]),
        ((Document(data="aGk=", media_type="application/pdf", title="a.pdf"),), [{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}}]),
        ((Document(text="words", title="T", context="C"),), "[document: T]\nC\nwords"),
        ((Document(data=base64.b64encode(b"words").decode(), media_type="text/plain"),), "words"),
        ((Reference("f"),), 'Tool f is now available: {"type":"object"}'),
        ((Reference("x"),), "Tool x is now available."),
        ((Foreign("openai_chat", "new", {"type": "new"}),), [{"type": "new"}]),
        ((Text("a"), Foreign("openai_chat", "message", {"name": "ada"})), "a"),
    ],
)  # fmt: skip
def test_what_the_user_says_is_a_string_unless_it_is_more_than_text(parts, content):
    messages, losses = user(*parts, tools=(Tool("f", schema={"type": "object"}),))
    assert messages[0]["content"] == content
    assert losses == []


def test_a_speaker_keeps_the_name():
    assert (
        user(Text("a"), Foreign("openai_chat", "message", {"name": "ada"}))[0][0]["name"] == "ada"
    )


@every_row(
    ("part", "words", "what"),
    [
        (Image(file_id="f1"), "[image f1 could not be shown to this model]", ""),
        (Document(url="https://example.org/a"), "[document https://example.org/a could not be shown to this model]", ""),
        (Document(file_id="f1"), "[document f1 could not be shown to this model]", ""),
        (Foreign("anthropic", "search", {"title": "T", "list": [{"url": "U", "n": 1}]}), "T\nU", ""),
        (Call("a", "f"), "", ""),
        (Text("a", citations=({"url": "U"},)), "a", ".citations"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_told_in_words_and_reported(part, words, what):
    messages, losses = user(part, origin="anthropic")
    assert messages[0]["content"] == words
    assert losses == [f"turns.0.content.0{what}"]


@pytest.mark.parametrize("data", ["!", "a"])
def test_text_that_is_not_in_base64_is_sent_as_a_file(data):
    (message,), _ = user(Document(data=data, media_type="text/plain"))
    assert [part["type"] for part in message["content"]] == ["file"]


def test_a_model_that_cannot_see_is_told_that_there_was_a_picture():
    messages, losses = user(PNG, capabilities=frozenset())
    assert messages[0]["content"] == "[image omitted: m cannot see images]"
    assert losses == ["turns.0.content.0"]


def test_the_context_of_a_file_is_lost():
    document = Document(data="aGk=", media_type="application/pdf", context="C")
    assert user(document)[1] == ["turns.0.content.0.context"]


def test_marks_for_the_cache_are_sent_where_they_are_known():
    parts = (Text("a", cache="5m"), Text("b", cache="1h"), Text("c"))
    (message,), losses = user(*parts, quirks={"cache_breakpoints": True})
    assert message["content"] == [
        {
            "type": "text",
            "text": "a",
            "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"},
        },
        {
            "type": "text",
            "text": "b",
            "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"},
        },
        {"type": "text", "text": "c"},
    ]
    assert losses == []
    assert user(*parts)[0][0]["content"] == "a\nb\nc"


# ── results ──

CALLS = Turn("assistant", (Call("a", "f"), Call("b", "g")))


def test_results_follow_in_the_order_of_their_calls_and_then_the_user():
    turn = Turn("user", (Result("b", (Text("two"),)), Result("a", (Text("one"),)), Text("Go on.")))
    messages, _ = encode(CALLS, turn)
    assert messages[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
        {"role": "user", "content": "Go on."},
    ]


@every_row(
    ("result", "content"),
    [
        (Result("a"), ""),
        (Result("a", (Text("x"), Text("y"))), "x\ny"),
        (Result("a", (Text("no"),), is_error=True), "Error: no"),
        (Result("a", (Text("Error: no"),), is_error=True), "Error: no"),
        (Result("a", is_error=True), "Error: "),
    ],
)
def test_a_result_is_text(result, content):
    messages, _ = encode(CALLS, Turn("user", (result,)))
    assert messages[1]["content"] == content


@pytest.mark.parametrize("quirk", [True, False])
def test_a_result_has_the_name_of_its_tool_where_that_is_wanted(quirk):
    turn = Turn("user", (Result("b", (Text("x"),)),))
    messages, _ = encode(CALLS, turn, quirks={"tool_result_name": quirk})
    assert messages[1].get("name") == ("g" if quirk else None)


def test_pictures_of_a_result_follow_it():
    turn = Turn("user", (Result("a", (Text("one"), PNG)), Result("b", (PNG,)), Text("Go on.")))
    messages, _ = encode(CALLS, turn)
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user"]
    assert [message["content"] for message in messages[1:3]] == ["one", ""]
    assert messages[3]["content"] == [
        {"type": "text", "text": "[image from tool f]"},
        SHOWN,
        {"type": "text", "text": "[image from tool g]"},
        SHOWN,
        {"type": "text", "text": "Go on."},
    ]


def test_pictures_stay_in_a_result_where_they_may():
    turn = Turn("user", (Result("a", (PNG,), is_error=True),))
    messages, _ = encode(CALLS, turn, quirks={"images_in_results": True})
    assert messages[1:] == [
        {
            "role": "tool",
            "tool_call_id": "a",
            "content": [{"type": "text", "text": "Error: "}, SHOWN],
        }
    ]


def test_two_results_of_one_call_are_both_sent():
    turn = Turn("user", (Result("a", (Text("1"),)), Result("a", (Text("2"),))))
    assert [m["content"] for m in encode(CALLS, turn)[0][1:]] == ["1", "2"]


# ── answers ──


def test_an_answer_is_one_text_with_its_calls_beside_it():
    (message,), _ = assistant(Text("a"), Text("b"), Call("x", "f", {"p": 1}))
    assert message["content"] == "ab"
    (call,) = message["tool_calls"]
    assert (call["id"], call["type"], call["function"]["name"]) == ("x", "function", "f")
    assert loads(call["function"]["arguments"]) == {"p": 1}


def test_no_text_is_null_beside_calls_and_empty_alone():
    assert assistant(Call("x", "f"))[0][0]["content"] is None
    assert assistant()[0][0]["content"] == ""


def test_what_could_not_be_read_goes_inside_an_object():
    (message,), _ = assistant(Call("x", "f", raw="{half"))
    assert loads(message["tool_calls"][0]["function"]["arguments"]) == {"raw": "{half"}


@every_row(
    ("call", "input"),
    [
        (Call("x", "patch", {"input": "a"}), "a"),
        (Call("x", "patch", {"input": [1]}), "[1]"),
        (Call("x", "patch", raw="a"), "a"),
        (Call("x", "patch"), ""),
    ],
)
def test_a_call_with_free_text_is_custom_for_its_own_api(call, input):
    tools = (Tool("patch", freeform=True),)
    (message,), _ = assistant(call, tools=tools, origin="openai_chat")
    assert message["tool_calls"] == [
        {"id": "x", "type": "custom", "custom": {"name": "patch", "input": input}}
    ]


def test_a_signature_of_gemini_goes_back_with_its_call():
    own = (Opaque("openai_chat", "thought_signature", "s"),)
    other = (Opaque("gemini", "thought_signature", "s"),)
    (message,), _ = assistant(Call("x", "f", opaque=own), Call("y", "f", opaque=other))
    first, second = message["tool_calls"]
    assert first["extra_content"] == {"google": {"thought_signature": "s"}}
    assert "extra_content" not in second


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_go_back_where_they_are_wanted(field):
    parts = (Thinking("A"), Call("x", "f"), Thinking("B"))
    (message,), losses = assistant(*parts, quirks={"thinking_field": field})
    assert message[field] == "AB"
    assert losses == []


@pytest.mark.parametrize("place", ["deepseek", "moonshot", "zai"])
def test_places_that_demand_the_thought_beside_a_call_get_it(place):
    (message,), losses = assistant(
        Thinking("A", (Opaque("anthropic", "signature", "s"),)),
        Call("x", "f"),
        quirks=providers.load(place).quirks,
    )
    assert message["reasoning_content"] == "A"
    assert losses == []


def test_thoughts_that_no_place_takes_are_lost():
    (message,), losses = assistant(Thinking("A"), Text("a"))
    assert message == {"role": "assistant", "content": "a"}
    assert losses == ["turns.0.content.0"]


def test_a_hidden_thought_of_another_api_is_lost():
    hidden = Thinking("", (Opaque("anthropic", "redacted", "z"),))
    quirks = {"thinking_field": "reasoning", "reasoning_details": True}
    assert assistant(hidden, quirks=quirks)[1] == ["turns.0.content.0"]


def test_sealed_thoughts_go_back_as_they_came():
    item = '{"type":"reasoning.encrypted","data":"z","id":"rs_1","index":1}'
    parts = (
        Thinking("A", (Opaque("openai_chat", "signature", "s"),)),
        Thinking("B", (Opaque("openai_chat", "item", item),)),
        Thinking("", (Opaque("openai_chat", "redacted", "y"),)),
        Thinking("C", (Opaque("anthropic", "signature", "t"),)),
    )
    quirks = {"thinking_field": "reasoning", "reasoning_details": True}
    (message,), losses = assistant(*parts, quirks=quirks)
    assert message["reasoning"] == "ABC"
    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "text": "A", "signature": "s"},
        {"type": "reasoning.summary", "summary": "B"},
        {"type": "reasoning.encrypted", "data": "z", "id": "rs_1", "index": 1},
        {"type": "reasoning.encrypted", "data": "y"},
    ]
    assert losses == []


def test_ids_have_nine_characters_where_they_must():
    turns = (
        CALLS,
        Turn("user", (Result("a", (Text("x"),)),)),
        Turn("assistant", (Call("abcDEF123", "f"),)),
    )
    messages, _ = encode(*turns, quirks={"nine_character_ids": True})
    asked, other = (call["id"] for call in messages[0]["tool_calls"])
    assert len(asked) == len(other) == 9
    assert asked != other
    assert messages[1]["tool_call_id"] == asked
    assert messages[2]["tool_calls"][0]["id"] == "abcDEF123"


def test_what_an_answer_said_of_itself_goes_back():
    (message,), _ = assistant(Text("a"), Foreign("openai_chat", "message", {"audio": {"id": "x"}}))
    assert message == {"role": "assistant", "audio": {"id": "x"}, "content": "a"}


def test_a_file_of_this_api_is_referred_to():
    (message,), losses = user(Document(file_id="f1"), origin="openai_chat")
    assert message["content"] == [{"type": "file", "file": {"file_id": "f1"}}]
    assert losses == []
