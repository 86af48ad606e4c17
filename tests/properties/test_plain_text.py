"""The law of shortcuts: a chunk that is only text is read as any other chunk is."""

import itertools
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbridge import codecs
from toolbridge.codecs.ollama import decode_stream
from toolbridge.codecs.ollama import shapes as ollama_shapes
from toolbridge.codecs.openai_chat import decode_stream as openai_stream
from toolbridge.codecs.openai_chat import shapes as chat_shapes
from toolbridge.codecs.openai_chat import text_chunks
from toolbridge.codecs.openai_chat.plain_answers import (
    EVENT_END,
    PlainBody,
    PlainBodyChoice,
    PlainChoice,
    PlainChunk,
    PlainDelta,
    PlainMessage,
)
from toolbridge.core import events as ev
from toolbridge.core.ids import Ids

SHORTCUTS = {"ollama": (decode_stream, "_text_chunks"), "openai_chat": (text_chunks, "decoder")}
"""Where the decoder of chunks that are only text is."""
words = st.sampled_from(["", "a", " word", "é", "\ud83d", "\ude00", "[DONE]", "<think>"])
calls = st.sampled_from(
    [
        None,
        [],
        [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}],
        [{"index": 0, "function": {"arguments": '{"a"'}}],
    ]
)


def some(**fields):
    """Return objects with any of `fields`."""
    return st.fixed_dictionaries({}, optional=fields)


messages = some(
    content=words, thinking=words, tool_calls=calls, images=st.sampled_from([None, [], ["x"]])
)
counts = st.sampled_from([None, 0, 1, 7])
lines = some(
    message=messages | st.none(),
    response=words,
    done=st.sampled_from([None, False, False, False, True]),
    done_reason=st.sampled_from([None, "stop", "length"]),
    prompt_eval_count=counts,
    eval_count=counts,
    total_duration=counts,
    eval_duration=counts,
    logprobs=st.sampled_from([None, [], [{"token": "a", "logprob": -1}]]),
    error=st.sampled_from([None, None, None, "", "broken"]),
)
deltas = some(
    role=st.just("assistant"),
    content=words | st.none(),
    reasoning_content=words | st.none(),
    reasoning=words,
    refusal=words | st.none(),
    tool_calls=calls,
    annotations=st.sampled_from([None, [], [{"type": "url_citation"}]]),
    audio=st.sampled_from([None, {"id": "a", "transcript": "hm"}]),
    new_field=st.just({"a": 1}),
)
choices = some(
    index=st.sampled_from([0, 0, 0, None, 1]),
    delta=deltas | st.none(),
    message=deltas,
    text=words,
    finish_reason=st.sampled_from([None, None, "stop", "tool_calls", "error"]),
    stop_reason=st.sampled_from([None, 5, "END"]),
    logprobs=st.sampled_from([None, {"content": [{"token": "a", "logprob": -1}]}]),
    usage=st.sampled_from([None, {"prompt_tokens": 3}]),
    error=st.sampled_from([None, None, "", "broken"]),
)
chunks = some(
    id=st.just("c1"),
    choices=st.lists(choices, max_size=2) | st.none(),
    usage=st.sampled_from([None, {"prompt_tokens": 1, "completion_tokens": 2}]),
    x_groq=st.sampled_from([None, {"usage": {"prompt_tokens": 4}}, {"error": "x"}]),
    error=st.sampled_from([None, None, None, "", {"message": "broken"}]),
)


def one_more(base, fields):
    """Return objects of `base` with one of `fields` more: each field alone decides."""
    return st.sampled_from(sorted(fields)).flatmap(
        lambda name: st.builds(lambda value: {**base, name: value}, fields[name])
    )


MESSAGE = {
    "thinking": words,
    "tool_calls": calls,
    "images": st.sampled_from([None, [], ["x"]]),
}
LINE = {
    "done": st.sampled_from([None, True]),
    "prompt_eval_count": counts,
    "eval_count": counts,
    "total_duration": counts,
    "load_duration": counts,
    "prompt_eval_duration": counts,
    "eval_duration": counts,
    "logprobs": st.sampled_from([[], [{"token": "a", "logprob": -1}]]),
    "error": st.sampled_from(["", "broken"]),
}
DELTA = {
    "reasoning_content": words,
    "reasoning": words,
    "thinking": words,
    "reasoning_details": st.just([{"type": "reasoning.text", "text": "hm"}]),
    "refusal": words,
    "tool_calls": calls,
    "function_call": st.just({"name": "f", "arguments": "{}"}),
    "annotations": st.just([{"type": "url_citation", "url_citation": {"url": "http://a"}}]),
    "images": st.just([{"image_url": {"url": "http://a"}}]),
    "audio": st.just({"id": "a", "transcript": "hm"}),
}
CHOICE = {
    "index": st.sampled_from([None, 1]),
    "message": st.just({"content": "whole"}),
    "text": words,
    "finish_reason": st.sampled_from(["stop", "length", "error"]),
    "stop_reason": st.sampled_from([5, "END"]),
    "logprobs": st.just({"content": [{"token": "a", "logprob": -1}]}),
    "usage": st.just({"prompt_tokens": 3}),
    "error": st.sampled_from(["", "broken"]),
}
CHUNK = {
    "usage": st.just({"prompt_tokens": 1, "completion_tokens": 2}),
    "x_groq": st.sampled_from([{"usage": {"prompt_tokens": 4}}, {"error": "x"}]),
    "error": st.sampled_from(["", {"message": "broken"}]),
}


def line_of(message):
    return {"message": message, "done": False}


def chunk_of(choice):
    return {"choices": [choice]}


def choice_of(delta):
    return {"index": 0, "delta": delta}


TEXT = {"content": "word"}
plain = {
    "ollama": st.builds(lambda text: line_of({"content": text}), words)
    | one_more(TEXT, MESSAGE).map(line_of)
    | one_more(line_of(TEXT), LINE),
    "openai_chat": st.builds(lambda text: chunk_of(choice_of({"content": text})), words)
    | one_more(TEXT, DELTA).map(choice_of).map(chunk_of)
    | one_more(choice_of(TEXT), CHOICE).map(chunk_of)
    | one_more(chunk_of(choice_of(TEXT)), CHUNK),
}
ANY = {"ollama": lines, "openai_chat": chunks}


def framed(api, records):
    if api == "ollama":
        return [json.dumps(record).encode() + b"\n" for record in records]
    return [b"data: " + json.dumps(record).encode() + b"\n\n" for record in records]


def decoded(api, pieces):
    decoder = codecs.load(api).stream_decoder(Ids(b"s"))
    return [*itertools.chain.from_iterable(map(decoder.feed, pieces)), *decoder.close()]


class Nothing(msgspec.Struct):
    no_such_field: int


def decoded_the_long_way(api, pieces):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*SHORTCUTS[api], msgspec.json.Decoder(Nothing))
        return decoded(api, pieces)


def decoded_chunk_by_chunk(pieces):
    """Decode streams of Chat Completions without the passes over several chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_stream, "plain_answer", lambda _: None)
        patch.setattr(openai_stream, "plain_beginning", lambda _: None)
        return decoded("openai_chat", pieces)


BEGIN = {"ollama": line_of(TEXT), "openai_chat": chunk_of(choice_of(TEXT))}


@pytest.mark.parametrize("api", SHORTCUTS)
@given(data=st.data())
def test_the_shortcut_for_plain_text_changes_no_event(api, data):
    records = data.draw(st.lists(ANY[api] | plain[api] | plain[api], max_size=8))
    pieces = framed(api, [BEGIN[api], *records])
    long = decoded_the_long_way(api, pieces)
    assert decoded(api, pieces) == long
    together = data.draw(st.integers(0, len(pieces)))
    deliveries = [*pieces[:together], b"".join(pieces[together:])]
    assert decoded(api, deliveries) == long


CALL = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("api", "pieces"),
    [
        pytest.param(
            "openai_chat",
            framed(
                "openai_chat",
                [
                    chunk_of(choice_of(TEXT | {"tool_calls": [CALL]})),
                    chunk_of(choice_of(TEXT)),
                ],
            ),
            id="a call before the text",
        ),
        pytest.param(
            "openai_chat",
            [b"event: error\n" + framed("openai_chat", [chunk_of(choice_of(TEXT))])[0]],
            id="an error by the name of its event",
        ),
        pytest.param(
            "ollama",
            framed("ollama", [{"error parsing tool call": "x", **line_of(TEXT)}]),
            id="an error by the name of its key",
        ),
        pytest.param("ollama", framed("ollama", [line_of(TEXT) | {"done": True}]), id="the end"),
    ],
)
def test_the_shortcut_leaves_what_is_more_than_text(api, pieces):
    every = framed(api, [BEGIN[api]]) + pieces
    long = decoded_the_long_way(api, every)
    assert decoded(api, every) == decoded(api, [b"".join(every)]) == long
    assert long != decoded(api, framed(api, [BEGIN[api], BEGIN[api]]))


ends = one_more({"message": {"content": ""}, "done": True, "eval_count": 7}, LINE) | st.builds(
    lambda message: {"message": message, "done": True, "eval_count": 7, "total_duration": 9},
    one_more(TEXT, MESSAGE) | st.builds(lambda text: {"content": text}, words),
)


@given(data=st.data())
def test_a_whole_answer_of_ollama_is_that_of_its_lines(data):
    records = data.draw(st.lists(plain["ollama"] | st.just(BEGIN["ollama"]), max_size=4))
    last = data.draw(ends) | data.draw(some(model=words, done_reason=st.just("length")))
    whole = b"".join(framed("ollama", [*records, last]))
    if data.draw(st.booleans()):
        whole = whole.rstrip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode_stream.StreamDecoder, "_plain", lambda *_: [])
        long = decoded("ollama", [whole])
    assert decoded("ollama", [whole]) == long
    cut = data.draw(st.integers(0, len(whole)))
    assert decoded("ollama", [whole[:cut], whole[cut:]]) == long


LAST = {"message": {"content": ""}, "done": True, "eval_count": 7}


@pytest.mark.parametrize(
    "between",
    [b"\n", b"", b"\n\n", b"\r\n", b" \n", b"\n ", b"\n{}{}\n", b'\n{"a":\n1}{}\n', b"\n1\n"],
)
def test_only_a_line_for_each_object_is_read_at_once(between):
    first, second, last = (line.rstrip() for line in framed("ollama", [line_of(TEXT)] * 2 + [LAST]))
    spread = second.replace(b", ", b",\n")
    for whole in (
        first + between + second + b"\n" + last + b"\n",
        first + b"\n" + second + between + last + b"\n",
        first + between + spread + b"\n" + last + b"\n",
        first + second + b"\n" + spread + b"\n" + last + b"\n",
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decode_stream.StreamDecoder, "_plain", lambda *_: [])
            long = decoded("ollama", [whole])
        assert decoded("ollama", [whole]) == long


@pytest.mark.parametrize(
    "between",
    [
        b"\n\ndata: ", b"", b"\n", b"\n\n", b"\r\n\r\ndata: ", b"\r\rdata: ", b"\n\ndata:", b"\r",
        b"\n\n: comment\n\ndata: ", b"\ndata: ", b"\n\nevent: error\ndata: ",
        b"\n\ndata: {}{}\n\ndata: ",
    ],
)  # fmt: skip
def test_only_an_event_for_each_object_is_read_at_once(between):
    first, second, last = (
        json.dumps(chunk).encode()
        for chunk in (
            chunk_of(choice_of(TEXT)),
            chunk_of(choice_of(TEXT) | {"finish_reason": "stop"}),
            {"choices": [], "usage": COUNTS},
        )
    )
    spread = second.replace(b", ", b",\r")
    for objects in (
        first + between + second + b"\n\ndata: " + last,
        first + b"\n\ndata: " + second + between + last,
        first + between + spread + b"\n\ndata: " + last,
    ):
        whole = b"data: " + objects + b"\n\ndata: [DONE]\n\n"
        long = decoded_chunk_by_chunk([whole])
        assert decoded("openai_chat", [whole]) == long
        assert decoded("openai_chat", [b"data: {", whole]) == decoded(
            "openai_chat", [b"data: {" + whole]
        )
        for cut in range(len(whole)):
            assert decoded("openai_chat", [whole[:cut], whole[cut:]]) == long


COUNTS = {"prompt_tokens": 1, "completion_tokens": 2}
finishes = st.sampled_from([None, "stop", "length", "tool_calls", "error", "content_filter"])
tails = st.builds(
    lambda delta, reason, usage: [chunk_of({"delta": delta, "finish_reason": reason}), *usage],
    st.sampled_from([{}, {"content": ""}, {"content": "word"}]) | one_more(TEXT, DELTA),
    finishes,
    st.sampled_from([[], [{"choices": [], "usage": COUNTS}], [{"choices": [], "usage": {}}]])
    | one_more({"choices": []}, CHUNK).map(lambda last: [last]),
)


@given(data=st.data())
def test_a_whole_stream_of_openai_is_that_of_its_chunks(data):
    heads = {"id": st.just("c"), "model": words, "created": counts, "provider": words}
    first = data.draw(some(**heads)) | chunk_of(choice_of({"content": data.draw(words)}))
    records = data.draw(st.lists(plain["openai_chat"] | st.just(BEGIN["openai_chat"]), max_size=3))
    last = data.draw(tails)
    if data.draw(st.booleans()):
        last[-1]["usage"] = data.draw(st.sampled_from([COUNTS, {"prompt_tokens": -1}, {"a": 1}]))
    end = data.draw(st.sampled_from([b"data: [DONE]\n\n", b"data: [DONE]", b""]))
    whole = b"".join(framed("openai_chat", [first, *records, *last])) + end
    long = decoded_chunk_by_chunk([whole])
    assert decoded("openai_chat", [whole]) == long
    cut = data.draw(st.integers(0, len(whole)))
    assert decoded("openai_chat", [whole[:cut], whole[cut:]]) == long
    after = data.draw(st.integers(0, whole.count(EVENT_END)))  # as servers deliver their events
    between = len(EVENT_END.join([*whole.split(EVENT_END)[:after], b""]))
    assert decoded("openai_chat", [whole[:between], whole[between:]]) == long


def message_of(message):
    return {"index": 0, "message": message, "finish_reason": "stop"}


DONE = {"delta": {}, "finish_reason": "stop"}
USED = {"choices": [], "usage": COUNTS}
ODD_STREAMS = {
    "the whole message again": [choice_of(TEXT), message_of(TEXT)],
    "an end by length": [choice_of(TEXT), DONE | {"finish_reason": "length"}],
    "two finish reasons": [choice_of(TEXT), DONE | {"finish_reason": "error"}, DONE],
    "a stop sequence before the end": [choice_of(TEXT), choice_of(TEXT) | {"stop_reason": "END"}, DONE],
    "a refusal before the end": [choice_of({"refusal": "No."}), choice_of(TEXT), DONE],
    "a call before the text": [choice_of({"tool_calls": [CALL]}), choice_of(TEXT), DONE],
    "a call after the text": [choice_of(TEXT), choice_of({"tool_calls": [CALL]}), DONE],
    "a thought in the text": [choice_of(TEXT), choice_of({"reasoning": "hm"}), choice_of(TEXT), DONE],
    "audio": [choice_of({"audio": {"id": "a", "transcript": "hm"}}), choice_of(TEXT), DONE],
    "another answer": [choice_of(TEXT), choice_of(TEXT) | {"index": 1}, DONE],
    "text in the last chunk": [choice_of(TEXT), choice_of(TEXT) | {"finish_reason": "stop"}],
    "a role alone": [choice_of({"role": "assistant", "content": ""}), choice_of(TEXT), DONE],
    "an end alone": [DONE],
}  # fmt: skip


EARLY_COUNTS = {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}


@pytest.mark.parametrize("early", [{}, EARLY_COUNTS], ids=["", "counts in each chunk"])
@pytest.mark.parametrize("name", ODD_STREAMS)
def test_a_stream_is_read_the_same_however_its_events_are_delivered(name, early):
    records = [chunk_of(choice) | early for choice in ODD_STREAMS[name]]
    pieces = [*framed("openai_chat", [*records, USED]), b"data: [DONE]\n\n"]
    long = decoded_chunk_by_chunk(pieces)
    for cuts in itertools.combinations_with_replacement(range(len(pieces) + 1), 2):
        parts = itertools.pairwise([0, *cuts, len(pieces)])
        deliveries = [b"".join(pieces[begin:end]) for begin, end in parts]
        assert decoded("openai_chat", deliveries) == long


def body_of(choice):
    return chunk_of(choice) | {"usage": COUNTS}


SAID = message_of(TEXT)
bodies = (
    st.builds(
        lambda text, end: SAID | {"message": {"content": text}, "finish_reason": end},
        words,
        finishes,
    ).map(body_of)
    | one_more(TEXT, DELTA).map(message_of).map(body_of)
    | one_more(SAID, CHOICE).map(body_of)
    | one_more(body_of(SAID), CHUNK)
    | st.just(body_of(message_of({"content": "word", "annotations": []})))
    | st.just(body_of(SAID) | {"choices": [SAID, SAID | {"index": 1}]})
)


@given(data=st.data())
def test_a_whole_body_of_openai_is_that_of_the_long_way(data):
    heads = {"id": st.just("c"), "model": words, "created": counts, "provider": words}
    body = data.draw(some(**heads)) | data.draw(bodies)
    if data.draw(st.booleans()):
        body["usage"] = data.draw(st.sampled_from([None, {}, {"prompt_tokens": -1}, {"a": 1}]))
    whole = json.dumps(body).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_stream, "plain_body", lambda _: None)
        long = decoded("openai_chat", [whole])
    assert decoded("openai_chat", [whole]) == long
    cut = data.draw(st.integers(0, len(whole)))
    assert decoded("openai_chat", [whole[:cut], whole[cut:]]) == long


@pytest.mark.parametrize("reason", chat_shapes.BROKEN_STOPS)
def test_a_whole_answer_that_a_server_broke_off_fails(reason):
    last = [chunk_of({"delta": {}, "finish_reason": reason}), {"choices": [], "usage": COUNTS}]
    stream = b"".join(framed("openai_chat", [BEGIN["openai_chat"], *last])) + b"data: [DONE]\n\n"
    body = json.dumps(body_of(SAID | {"finish_reason": reason})).encode()
    for whole in (stream, body):
        assert type(decoded("openai_chat", [whole])[-1]) is ev.Failed


def test_a_whole_answer_takes_one_pass(monkeypatch):
    """The laws above compare with the long way, so this one tells that there is another."""
    monkeypatch.setattr(decode_stream.StreamDecoder, "_decode_all", None)
    monkeypatch.setattr(openai_stream._Answer, "read_record", None)
    end = {"message": {"content": ""}, "done": True, "eval_count": 7}
    assert decoded("ollama", [b"".join(framed("ollama", [BEGIN["ollama"], end]))])
    last = [chunk_of({"delta": {}, "finish_reason": "stop"}), {"choices": [], "usage": COUNTS}]
    pieces = framed("openai_chat", [BEGIN["openai_chat"], BEGIN["openai_chat"], *last])
    pieces[-1] += b"data: [DONE]\n\n"
    assert decoded("openai_chat", [b"".join(pieces)])
    assert decoded("openai_chat", [b"".join(pieces[:2]), b"".join(pieces[2:])])
    monkeypatch.undo()
    monkeypatch.setattr(openai_stream._Answer, "read", None)
    assert decoded("openai_chat", [json.dumps(body_of(SAID)).encode()])


SPOILED = [b"", b"\n", b"\r", b"\xff", b'"', b"\\", b",", b'"error', b'"content":"x",', b"1", b" "]


@pytest.mark.parametrize("api", SHORTCUTS)
@given(data=st.data())
def test_the_shortcut_reads_spoiled_bytes_as_the_long_way_does(api, data):
    """Any byte of a text chunk may be wrong: an event that is not whole, text that is not UTF-8."""
    pieces = framed(api, [BEGIN[api], *data.draw(st.lists(plain[api], min_size=1, max_size=4))])
    whole = b"".join(pieces)
    at = data.draw(st.integers(len(pieces[0]), len(whole)))
    left_out = data.draw(st.integers(0, 2))
    spoiled = whole[:at] + data.draw(st.sampled_from(SPOILED)) + whole[at + left_out :]
    cut = data.draw(st.integers(0, len(spoiled)))
    deliveries = [spoiled[:cut], spoiled[cut:]]
    assert decoded(api, deliveries) == decoded_the_long_way(api, deliveries)


def fields(shape):
    return {field.name: field.type for field in msgspec.structs.fields(shape)}


@pytest.mark.parametrize(
    ("narrow", "wide", "different"),
    [
        (chat_shapes.TextChunk, chat_shapes.Chunk, {"choices"}),
        (chat_shapes.TextChoice, chat_shapes.AnswerChoice, {"delta", "index"}),
        (chat_shapes.OnlyText, chat_shapes.Delta, {"content"}),
        (PlainChunk, chat_shapes.Chunk, {"choices", "usage"}),
        (PlainChoice, chat_shapes.AnswerChoice, {"delta", "index", "finish_reason"}),
        (PlainDelta, chat_shapes.Delta, {"content"}),
        (PlainBody, chat_shapes.Chunk, {"choices", "usage"}),
        (PlainBodyChoice, chat_shapes.AnswerChoice, {"message", "index", "finish_reason"}),
        (PlainMessage, chat_shapes.Delta, {"content", "annotations"}),
        (ollama_shapes.TextChunk, ollama_shapes.Chunk, {"message"}),
        (ollama_shapes.OnlyText, ollama_shapes.Message, {"content"}),
    ],
)
def test_a_text_chunk_has_every_field_that_is_read_and_accepts_no_more(narrow, wide, different):
    shown, every = fields(narrow), fields(wide)
    assert {*shown} == {*every}
    same = {name for name, kind in shown.items() if kind in (None, type(None), every[name])}
    assert {*shown} - same == different


def test_the_law_knows_every_field_that_is_read():
    first = {"id", "model", "created", "system_fingerprint", "service_tier", "provider"}
    assert {"content", *DELTA} == {*chat_shapes.Delta.__struct_fields__}
    assert {"delta", *CHOICE} == {*chat_shapes.AnswerChoice.__struct_fields__}
    assert {"choices", *CHUNK, *first} == {*chat_shapes.Chunk.__struct_fields__}
    unread = {"role", "tool_name", "tool_call_id"}
    assert {"content", *MESSAGE, *unread} == {*ollama_shapes.Message.__struct_fields__}
    other = {"model", "message", "response", "thinking", "tool_calls", "done_reason"}
    assert {*LINE, *other} == {*ollama_shapes.Chunk.__struct_fields__}


@pytest.mark.parametrize("api", SHORTCUTS)
def test_plain_text_takes_the_shortcut(api, monkeypatch):
    kept = getattr(*SHORTCUTS[api])

    class Counted:
        def decode(self, line):
            found.append(line)
            return kept.decode(line)

    found = []
    monkeypatch.setattr(*SHORTCUTS[api], Counted())
    chat = {"index": 0, "delta": {"content": "a"}, "finish_reason": None, "logprobs": None}
    record = {"ollama": {"message": {"role": "assistant", "content": "a"}, "done": False}}.get(
        api, {"id": "c", "object": "chat.completion.chunk", "choices": [chat], "usage": None}
    )
    pieces = framed(api, [record, record, record])
    decoded(api, pieces)
    assert len(found) == 2
    decoded(api, [pieces[0], b"".join(pieces[1:])])
    assert len(found) == 4


QUESTION = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi"}],
}
FIELDS = {
    "system": st.sampled_from(["", "Be brief.", [{"type": "text", "text": "a"}]]),
    "tools": st.sampled_from([[], [{"name": "f", "input_schema": {"type": "object"}}]]),
    "tool_choice": st.sampled_from([None, {"type": "auto"}, {"type": "any", "new": 1}]),
    "thinking": st.sampled_from([{"type": "disabled"}, {"type": "enabled", "budget_tokens": 1024}]),
    "metadata": st.sampled_from([None, {"user_id": "u"}, {"user_id": "u", "new": 1}]),
    "context_management": st.sampled_from([None, {}, {"edits": [{"type": "x"}]}]),
    "service_tier": st.just("auto"),
    "new_field": st.sampled_from([None, {"a": [1]}]),
}


@given(body=some(**FIELDS))
def test_a_request_without_unknown_fields_is_decoded_as_one_with_them(body):
    """The unknown field makes the decoder take the long way."""
    decode = codecs.load("anthropic").decode_request
    short = decode(json.dumps(QUESTION | body).encode())
    long = decode(json.dumps(QUESTION | body | {"other_field": 1}).encode())
    assert long.extra.pop("other_field") == 1
    assert short == long
    assert list(short.extra) == list(long.extra)
