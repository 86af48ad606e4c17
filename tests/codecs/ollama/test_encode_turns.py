from base64 import b64encode

import pytest

from toolbridge.codecs.ollama.encode_request import encode_request
from toolbridge.core.codec import Target
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

SEEING = Target("llava")
BLIND = Target("smollm2", capabilities=frozenset({"tools"}))
HEARING = Target("gemma3n", capabilities=frozenset({"vision", "audio"}))
PNG = Image(data="iVBORw0KGgo=", media_type="image/png", cache="5m")


def encode(*turns, target=SEEING, tools=()):
    outgoing = encode_request(Request("m", turns=turns, tools=tools), target)
    return outgoing.body["messages"], [loss.what for loss in outgoing.losses]


def user(*parts, **rest):
    return encode(Turn("user", parts), **rest)


def result(*parts, **fields):
    messages, lost = user(Result("call_1", parts, **fields))
    (message,) = messages
    return message, lost


@pytest.mark.req("PX-09", "PX-35", "PX-36")
def test_a_round_with_a_tool_is_told_in_three_messages():
    messages, lost = encode(
        Turn("user", (Text("weather?"),)),
        Turn(
            "assistant",
            (
                Thinking("look", (Opaque("anthropic", "signature", "c2ln"),)),
                Text("Let me"),
                Text(" see."),
                Call("call_1", "f", {"b": 1, "a": 2}),
                Call("call_2", "g", raw="not-json"),
            ),
        ),
        Turn("user", (Result("call_1", (Text("sun"), Text("wind"))), Result("call_2"), Text("?"))),
    )
    assert messages == [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "thinking": "look",
            "tool_calls": [
                {
                    "id": "call_1",
                    "function": {"index": 0, "name": "f", "arguments": {"b": 1, "a": 2}},
                },
                {
                    "id": "call_2",
                    "function": {"index": 1, "name": "g", "arguments": {"raw": "not-json"}},
                },
            ],
        },
        {"role": "tool", "content": "sun\nwind", "tool_name": "f", "tool_call_id": "call_1"},
        {"role": "tool", "content": "", "tool_name": "g", "tool_call_id": "call_2"},
        {"role": "user", "content": "?"},
    ]
    assert lost == []


def test_a_system_turn_stays_in_its_place():
    messages, _ = encode(
        Turn("user", (Text("a"),)), Turn("system", (Text("now"), Text("calm"))), Turn("user", ())
    )
    assert messages == [
        {"role": "user", "content": "a"},
        {"role": "system", "content": "now\ncalm"},
        {"role": "user", "content": ""},
    ]


def test_a_result_names_its_tool_by_itself_or_by_its_call_or_not_at_all():
    assert result(name="f")[0]["tool_name"] == "f"
    assert "tool_name" not in result()[0]


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ((Text("boom"),), "Error: boom"),
        ((Text("Error: boom"),), "Error: boom"),
        ((), "Error: "),
    ],
)
def test_an_error_says_so_once(parts, content):
    assert result(*parts, is_error=True)[0]["content"] == content


def test_pictures_stand_beside_the_text_on_user_and_tool_messages():
    assert user(Text("what"), PNG, Text("is it?"))[0] == [
        {"role": "user", "content": "what\nis it?", "images": ["iVBORw0KGgo="]}
    ]
    message, lost = result(Text("seen"), PNG)
    assert message["images"] == ["iVBORw0KGgo="]
    assert lost == []


def test_the_prefix_of_a_data_url_is_taken_off():
    messages, lost = user(Image(url="data:image/png;base64,QUJD"))
    assert messages[0]["images"] == ["QUJD"]
    assert lost == []


@pytest.mark.parametrize("image", [Image(url="https://example.org/a.png"), Image(file_id="file_1")])
def test_a_picture_by_reference_is_a_loss_with_a_word_in_its_place(image):
    messages, lost = user(image)
    assert messages == [
        {
            "role": "user",
            "content": f"[image {image.url or image.file_id} could not be shown to this model]",
        }
    ]
    assert lost == ["turns.0.content.0"]


def test_a_model_that_cannot_see_is_told_that_there_was_a_picture():
    messages, lost = user(Text("what?"), PNG, target=BLIND)
    assert messages == [
        {"role": "user", "content": "what?\n[image omitted: smollm2 cannot see images]"}
    ]
    assert lost == ["turns.0.content.1"]


def test_a_sound_goes_to_models_that_hear_and_is_a_loss_elsewhere():
    sound = Audio("UklGRg==", "audio/wav")
    assert user(sound, target=HEARING) == (
        [{"role": "user", "content": "", "images": ["UklGRg=="]}],
        [],
    )
    assert user(sound) == (
        [{"role": "user", "content": "[audio omitted: llava cannot hear it]"}],
        ["turns.0.content.0"],
    )


@pytest.mark.parametrize(
    ("document", "content"),
    [
        (Document(text="words"), "words"),
        (
            Document(text="words", title="Notes", context="of June"),
            "[document: Notes]\nof June\nwords",
        ),
        (
            Document(data=b64encode("wörds".encode()).decode(), media_type="text/plain"),
            "wörds",
        ),
    ],
)
def test_a_text_document_is_text_under_its_title(document, content):
    assert user(document) == ([{"role": "user", "content": content}], [])


@pytest.mark.parametrize(
    ("document", "content"),
    [
        (
            Document(data="JVBERg==", media_type="application/pdf", title="a.pdf"),
            "[document a.pdf could not be shown to this model]",
        ),
        (Document(url="https://x/y"), "[document could not be shown to this model]"),
        (
            Document(data="a", media_type="text/plain"),
            "[document could not be shown to this model]",
        ),
    ],
)
def test_any_other_document_is_a_loss_with_a_word_in_its_place(document, content):
    assert user(document) == ([{"role": "user", "content": content}], ["turns.0.content.0"])


def test_a_found_tool_is_named_with_its_schema():
    tool = Tool("find", schema={"type": "object"}, deferred=True)
    turn = Turn("user", (Result("c", (Reference("find"), Reference("gone"))),))
    messages, lost = encode(turn, tools=(tool,))
    assert messages[0]["content"] == (
        'Tool find is now available: {"type":"object"}\nTool gone is now available.'
    )
    assert lost == []


def test_a_part_of_another_api_leaves_its_words_and_a_loss():
    raw = {
        "type": "search_result",
        "title": "Rome",
        "content": [{"type": "text", "text": "is old"}, {"type": "image"}, 7],
    }
    messages, lost = user(Foreign("anthropic", "search_result", raw))
    assert messages == [{"role": "user", "content": "Rome\nis old"}]
    assert lost == ["turns.0.content.0"]


def test_citations_are_a_loss_and_their_text_is_not():
    messages, lost = encode(Turn("assistant", (Text("so", citations=({"url": "x"},)),)))
    assert messages == [{"role": "assistant", "content": "so"}]
    assert lost == ["turns.0.content.0.citations"]


def test_a_part_out_of_place_is_a_loss():
    messages, lost = user(Thinking("mine"), Text("a"))
    assert messages == [{"role": "user", "content": "a"}]
    assert lost == ["turns.0.content.0"]
