import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.openai_responses.decode_request import decode_request
from toolbridge.core.errors import MalformedRequest
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
from toolbridge.core.server_tools import ServerCall

ORIGIN = "openai_responses"
PNG = "data:image/png;base64,aGk="


def decode(*items):
    return decode_request(json.dumps({"model": "m", "input": list(items)}).encode())


def turns(*items):
    return decode(*items).turns


def content(*parts):
    (turn,) = turns({"role": "user", "content": list(parts)})
    return turn.content


def refused(*items):
    with pytest.raises(MalformedRequest) as caught:
        decode(*items)
    return caught.value.problem.where


def item(value):
    return (Opaque(ORIGIN, "item", value),)


USER = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a":1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "found"}


# ── who speaks ──


def test_the_system_speaks_first_or_in_place():
    asked = decode(
        {"type": "message", "id": "msg_1", "role": "developer", "content": "one"},
        {"role": "system", "content": [{"type": "input_text", "text": "two"}]},
        USER,
        {"role": "developer", "content": "three"},
    )
    assert asked.system == (
        Text("one", opaque=item("msg_1")),
        Text("two", opaque=item('{"role":"system"}')),
    )
    assert asked.turns == (Turn("user", (Text("hi"),)), Turn("system", (Text("three"),)))


def test_a_system_that_shows_a_picture_speaks_in_place():
    shown = {"role": "developer", "content": [{"type": "input_image", "image_url": PNG}]}
    asked = decode(shown, USER)
    assert asked.system == ()
    assert asked.turns[0].role == "system"


def test_messages_of_the_user_are_turns_of_their_own():
    assert len(turns(USER, USER)) == 2


def test_what_the_model_did_is_one_turn_in_its_order():
    did = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "s"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "So:"}]},
        CALL,
        {"type": "web_search_call", "id": "ws_1"},
    ]
    _, turn = turns(USER, *did)
    assert turn.role == "assistant"
    assert [type(part) for part in turn.content] == [Thinking, Text, Call, ServerCall]


def test_outputs_and_the_message_behind_them_are_one_turn():
    found = turns(
        USER, CALL, CALL | {"call_id": "c2"}, OUTPUT, OUTPUT | {"call_id": "c2"}, USER, USER
    )
    assert [turn.role for turn in found] == ["user", "assistant", "user", "user"]
    assert [type(part) for part in found[2].content] == [Result, Result, Text]


@every_row(
    ("item", "where"),
    [
        ({"role": "tool", "content": "x"}, "input.0.role"),
        ({"content": "x"}, "input.0.role"),
        ({"type": "function_call", "name": "x"}, "input.0.call_id"),
        ({"type": "function_call_output", "output": "x"}, "input.0.call_id"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input.0.content.0.text"),
        ({"role": "user", "content": [{"text": "x"}]}, "input.0.content.0.type"),
        ({"role": "user", "content": [{"type": "input_image"}]}, "input.0.content.0"),
        ({"role": "user", "content": [{"type": "input_file"}]}, "input.0.content.0"),
        (OUTPUT | {"output": [{"type": "input_text", "text": 3}]}, "input.0.output.0.text"),
    ],
)
def test_a_fault_has_its_path(item, where):
    assert refused(item) == where


# ── items ──


def test_a_call_keeps_the_id_of_its_item():
    ((call,),) = (turn.content for turn in turns(CALL | {"id": "fc_1"}))
    assert call == Call("c1", "look", {"a": 1}, opaque=item("fc_1"))


def test_a_call_keeps_what_else_its_item_says():
    ((call,),) = (turn.content for turn in turns(CALL | {"id": "fc_1", "status": "completed"}))
    assert json.loads(call.opaque[0].value) == {"id": "fc_1", "status": "completed"}


def test_our_own_ids_are_forgotten():
    ((call,),) = (turn.content for turn in turns(CALL | {"id": "fc_tb1_x_0"}))
    assert call.opaque == ()


@pytest.mark.parametrize(("written", "raw"), [("", ""), ("{", "{"), ("[1]", "[1]")])
def test_arguments_that_are_no_object_stay_as_they_are(written, raw):
    ((call,),) = (turn.content for turn in turns(CALL | {"arguments": written}))
    assert (call.arguments, call.raw) == ({}, raw)


def test_a_call_of_a_namespace_has_its_full_name():
    ((call,),) = (turn.content for turn in turns(CALL | {"namespace": "agents"}))
    assert call.name == "agents__look"


def test_a_call_with_free_text_has_one_argument():
    raw = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"}
    ((call,),) = (turn.content for turn in turns(raw))
    assert call.arguments == {"input": "*** Begin"}


@every_row(
    ("output", "content", "is_error"),
    [
        ("found", (Text("found"),), False),
        ("", (), False),
        (None, (), False),
        ("Error: no", (Text("no"),), True),
        ([], (), False),
        ([{"type": "input_text", "text": "a"}], (Text("a"),), False),
        (
            [{"type": "input_text", "text": "Error: "}, {"type": "input_image", "image_url": PNG}],
            (Image(data="aGk=", media_type="image/png"),),
            True,
        ),
    ],
)  # fmt: skip
def test_an_output_is_a_result(output, content, is_error):
    (turn,) = turns(OUTPUT | {"output": output})
    assert turn.content == (Result("c1", content, is_error=is_error),)


def test_an_output_keeps_its_id():
    (turn,) = turns(OUTPUT | {"id": "fco_1"})
    assert turn.content[0].content == (Text("found", opaque=item("fco_1")),)


def test_a_thought_keeps_its_seal_and_its_parts():
    summary = [{"type": "summary_text", "text": text} for text in ("one", "two")]
    raw = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "s"}
    (turn,) = turns(raw)
    (thought,) = turn.content
    assert thought.text == "one\n\ntwo"
    assert thought.opaque[0] == Opaque(ORIGIN, "encrypted", "s")
    assert json.loads(thought.opaque[1].value) == {"id": "rs_1", "summary": summary}


@pytest.mark.req("CL-02")
@every_row(
    ("raw", "role"),
    [
        ({"type": "local_shell_call", "call_id": "x", "action": {}}, "assistant"),
        ({"type": "computer_call_output", "call_id": "x", "output": {}}, "user"),
        ({"type": "tool_search_output", "call_id": "x", "tools": []}, "user"),
        ({"type": "mcp_approval_response", "approve": True}, "user"),
        ({"type": "compaction", "encrypted_content": "x"}, "assistant"),
        ({"type": "item_reference", "id": "rs_1"}, "assistant"),
        ({"type": "brand_new"}, "assistant"),
    ],
)
def test_an_item_that_we_do_not_model_is_kept_in_its_place(raw, role):
    _, turn = turns({"role": "system", "content": "x"}, USER, raw)[-2:]
    assert turn == Turn(role, (Foreign(ORIGIN, raw["type"], raw),))


def test_a_reference_needs_no_type():
    (turn,) = turns({"id": "msg_1"})
    assert turn.content == (Foreign(ORIGIN, "item_reference", {"id": "msg_1"}),)


# ── content ──


@every_row(
    ("raw", "part"),
    [
        ({"type": "input_text", "text": "a"}, Text("a")),
        ({"type": "text", "text": "a"}, Text("a")),
        ({"type": "refusal", "refusal": "no"}, Text("no")),
        ({"type": "input_image", "image_url": PNG, "detail": "auto"}, Image(data="aGk=", media_type="image/png")),
        ({"type": "input_image", "image_url": "https://x/a.png", "detail": "low"}, Image(url="https://x/a.png", detail="low")),
        ({"type": "input_image", "image_url": {"url": "https://x/a.png"}}, Image(url="https://x/a.png")),
        ({"type": "input_image", "file_id": "file_1"}, Image(file_id="file_1")),
        (
            {"type": "input_file", "file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"},
            Document(data="aGk=", media_type="application/pdf", title="a.pdf"),
        ),
        ({"type": "input_file", "file_data": "aGk="}, Document(data="aGk=")),
        ({"type": "input_file", "file_url": "https://x/a.pdf"}, Document(url="https://x/a.pdf")),
        ({"type": "input_file", "file_id": "file_1"}, Document(file_id="file_1")),
        ({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}}, Audio("aGk=", "audio/mpeg")),
        ({"type": "input_video", "x": 1}, Foreign(ORIGIN, "content/input_video", {"type": "input_video", "x": 1})),
        (
            {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
            Text("a", cache="1h"),
        ),
        ({"type": "input_text", "text": "a", "prompt_cache_breakpoint": {}}, Text("a", cache="5m")),
    ],
)  # fmt: skip
def test_a_part_is_read(raw, part):
    assert content(raw) == (part,)


def test_annotations_are_citations():
    cited = {"type": "url_citation", "url": "https://example.org"}
    said = [{"type": "output_text", "text": "a", "annotations": [cited]}]
    (turn,) = turns({"role": "assistant", "content": said})
    assert turn.content == (Text("a", citations=(cited,)),)
