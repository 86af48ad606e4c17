import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.errors import MalformedRequest, TooLarge
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Reference,
    Request,
    Result,
    Text,
    Thinking,
    Turn,
)
from toolbridge.node.protocol.flattening import flatten
from toolbridge.node.protocol.prompt import MAX_IMAGE, Attachment, FlatPrompt, write_prompt


def asked(*turns, system=()):
    return Request("m", tuple(turns), tuple(map(Text, system)))


def user(*parts):
    return Turn("user", tuple(Text(p) if isinstance(p, str) else p for p in parts))


def assistant(*parts):
    return Turn("assistant", tuple(Text(p) if isinstance(p, str) else p for p in parts))


def decoded(**fields):
    body = {"model": "m", "max_tokens": 9} | fields
    return codecs.load("anthropic").decode_request(dump_bytes(body))


@pytest.mark.req("CB-09")
def test_chatml_marks_every_turn_and_ends_where_the_model_goes_on():
    request = asked(user("Q1"), assistant("A1"), user("Q2"), system=["SYS"])
    assert write_prompt(request).prompt == (
        "<|im_start|>system\nSYS\n<|im_end|>\n"
        "<|im_start|>user\nQ1\n<|im_end|>\n"
        "<|im_start|>assistant\nA1\n<|im_end|>\n"
        "<|im_start|>user\nQ2\n<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_without_a_system_text_there_is_no_system_turn():
    assert write_prompt(asked(user("hi"), system=[""])).prompt == (
        "<|im_start|>user\nhi\n<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.req("CB-02", "CB-09")
def test_a_text_and_a_block_of_text_give_the_same_prompt():
    plain = decoded(messages=[{"role": "user", "content": "hi"}])
    block = decoded(messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
    assert write_prompt(plain) == write_prompt(block)


@pytest.mark.req("CB-10", "CB-35")
def test_calls_and_results_are_written_out():
    request = decoded(
        messages=[
            {"role": "user", "content": "write"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Sure."},
                {"type": "tool_use", "id": "t1", "name": "Write", "input": {"path": "a", "n": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
        ]
    )  # fmt: skip
    assert write_prompt(request).prompt == (
        "<|im_start|>user\nwrite\n<|im_end|>\n"
        '<|im_start|>assistant\nSure.\n[Tool Use: Write]\n{"path":"a","n":1}\n<|im_end|>\n'
        "<|im_start|>user\n[Tool Result: t1]\ndone\n<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@every_row(
    ("result", "text"),
    [
        (Result("t"), "[Tool Result: t]\n"),
        (Result("t", (Text("a"), Text("b"))), "[Tool Result: t]\na\nb"),
        (Result("t", (Text("no"),), is_error=True), "[Tool Result: t]\nError: no"),
        (Call("t", "X", raw='{"a'), '[Tool Use: X]\n{"a'),
        (Document(text="page"), "page"),
    ],
)
def test_other_parts_are_text_as_well(result, text):
    framed = write_prompt(asked(user(result)))
    assert framed.prompt == f"<|im_start|>user\n{text}\n<|im_end|>\n<|im_start|>assistant\n"
    assert not framed.losses


@pytest.mark.req("CB-03", "CB-10")
@every_row(
    ("media_type", "format"),
    [("image/png", "png"), ("image/jpeg", "jpeg"), ("image/webp", "webp"), ("image/GIF", "gif")],
)
def test_pictures_go_beside_the_prompt(media_type, format):
    source = {"type": "base64", "media_type": media_type, "data": "aGk="}
    content = [{"type": "text", "text": "look"}, {"type": "image", "source": source}]
    framed = write_prompt(decoded(messages=[{"role": "user", "content": content}]))
    assert framed.images == (Attachment("aGk=", format),)
    assert framed.prompt == "<|im_start|>user\nlook\n<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.req("CB-10")
def test_a_picture_in_a_result_is_not_dropped():
    result = Result("t", (Text("seen"), Image(data="aGk=", media_type="image/png")))
    framed = write_prompt(asked(user(result)))
    assert framed.images == (Attachment("aGk=", "png"),)
    assert "[Tool Result: t]\nseen\n" in framed.prompt


@every_row(
    "part",
    [
        Image(url="https://x.test/a.png"),
        Image(data="aGk=", media_type="image/tiff"),
        Image(data="aGk="),
        Thinking("hm"),
        Audio("aGk="),
        Document(data="aGk="),
        Foreign("anthropic", "x", {}),
        Reference("t"),
    ],
    ids=lambda part: repr(part)[:30],
)
def test_what_a_node_cannot_take_is_a_loss(part):
    framed = write_prompt(asked(user("hi", part)))
    assert [loss.what for loss in framed.losses] == ["turns.0.content.1"]
    assert framed == FlatPrompt(write_prompt(asked(user("hi"))).prompt, (), framed.losses)


def test_a_picture_that_is_too_large_is_refused():
    data = "A" * (MAX_IMAGE + 1)
    with pytest.raises(TooLarge, match="exceeds"):
        write_prompt(asked(user(Image(data=data, media_type="image/png"))))


@pytest.mark.req("CB-11")
@pytest.mark.parametrize("style", ["chatml", "labelled"])
def test_no_messages_are_an_error(style):
    with pytest.raises(MalformedRequest, match="messages"):
        write_prompt(asked(system=["SYS"]), style)


@pytest.mark.req("CB-09")
def test_labels_tell_turns_apart():
    request = asked(user("Q1"), assistant("A1"), user("Q2"), system=["SYS"])
    assert write_prompt(request, "labelled").prompt == (
        "System:\nSYS\n\nUser:\nQ1\n\nAssistant:\nA1\n\nUser:\nQ2\n\nAssistant:"
    )


plain = st.text(st.characters(blacklist_characters="<[", codec="utf-8"))
turns = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), plain), min_size=1, max_size=5)


@pytest.mark.req("CB-09")
@given(plain, turns)
def test_a_node_leaves_a_labelled_prompt_as_it_is(system, spoken):
    request = asked(*(Turn(role, (Text(text),)) for role, text in spoken), system=[system])
    prompt = write_prompt(request, "labelled").prompt
    assert flatten(prompt) == prompt


marks = st.sampled_from(["<|im_start|>user", "<|im_end|>", "\n", "[INST]", "<|user|>", "x", " "])


@pytest.mark.req("CB-09")
@given(st.lists(st.lists(marks, max_size=5).map("".join), min_size=1, max_size=4))
def test_labels_survive_whatever_marks_a_text_quotes(texts):
    request = asked(*(user(text) for text in texts))
    lines = flatten(write_prompt(request, "labelled").prompt).split("\n")
    assert lines.count("User:") == len(texts)
    assert lines[-1] == "Assistant:"


def test_chatml_does_not_survive_a_node_and_that_is_why_there_are_labels():
    request = asked(user("Q1"), assistant("A1"), system=["SYS"])
    assert flatten(write_prompt(request).prompt) == "SYS\n\nQ1\n\nA1"
