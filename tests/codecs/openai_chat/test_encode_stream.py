import pytest
from tests.codecs.openai_chat.streams import decode
from tests.properties import grammar
from tests.tables import every_row

from toolbridge.codecs.openai_chat.encode_stream import StreamEncoder, encode_message
from toolbridge.core.codec import AnswerContext
from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.json import loads
from toolbridge.core.messages import Call, Foreign, Image, Opaque, Problem, Request, Text, Tool
from toolbridge.core.usage import Usage
from toolbridge.wire.sse import SseReader

COUNTED = {"stream_options": {"include_usage": True}}


def asked(**fields):
    return AnswerContext(
        Request("asked", stream=True, origin="openai_chat", **fields), at=1700000000.9
    )


def begun():
    draft = Draft(Ids("seed"))
    return draft, draft.start(id="msg_1", model="served")


def written(events, wanted=None):
    """Return the frames of a stream: chunks, an error, the word at the end."""
    data = b"".join(grammar.run(StreamEncoder(wanted or asked()), events))
    frames = [frame.data for frame in grammar.run(SseReader(), [data])]
    return [loads(frame) if frame != b"[DONE]" else "[DONE]" for frame in frames]


def deltas(events, wanted=None):
    chunks = [chunk for chunk in written(events, wanted) if isinstance(chunk, dict)]
    found = [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]
    return [delta for delta in found[1:] if delta]


def spoken(finish="end", **choices):
    draft, events = begun()
    return events + draft.text("Hel") + draft.text("lo") + draft.finish(finish, **choices)


@pytest.mark.req("CL-03")
def test_every_chunk_stands_in_the_same_envelope():
    *chunks, done = written(spoken(), asked(extra=COUNTED))
    assert done == "[DONE]"
    for chunk in chunks:
        assert chunk["id"] == "chatcmpl-1"
        assert chunk["object"] == "chat.completion.chunk"
        assert chunk["created"] == 1700000000
        assert chunk["model"] == "asked"


def test_the_served_model_is_told_where_none_was_asked():
    assert written(spoken(), AnswerContext())[0]["model"] == "served"


@pytest.mark.req("CL-03")
def test_the_role_comes_first_and_the_reason_last():
    first, *_, last, _ = written(spoken())
    assert first["choices"][0] == {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] == "stop"


@pytest.mark.req("CL-03", "CL-07")
@every_row(
    ("stop", "reason"),
    [
        ("end", "stop"),
        ("stop_sequence", "stop"),
        ("pause", "stop"),
        ("length", "length"),
        ("context_overflow", "length"),
        ("refusal", "content_filter"),
        ("tool_use", "stop"),  # there was no call
    ],
)
def test_only_documented_reasons_are_told(stop, reason):
    assert written(spoken(stop))[-2]["choices"][0]["finish_reason"] == reason
    body = loads(encode_message(collect(spoken(stop)), asked()))
    assert body["choices"][0]["finish_reason"] == reason


def test_counts_are_told_only_when_asked_for():
    draft, events = begun()
    events += draft.text("Hi")
    events += draft.usage(Usage(input=4, output=5, cache_read=3, cache_write=2, reasoning=1))
    events += draft.finish("end")
    plain = written(events)
    assert not any("usage" in chunk for chunk in plain[:-1])
    *others, counts, _ = written(events, asked(extra=COUNTED))
    assert all(chunk["usage"] is None for chunk in others)
    assert counts["choices"] == []
    assert counts["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    data = b"".join(grammar.run(StreamEncoder(asked(extra=COUNTED)), events))
    assert collect(decode(data)).usage == collect(events).usage


def test_an_estimate_stands_in_for_counts_that_nobody_gave():
    wanted = AnswerContext(Request("m"), estimate=12)
    assert loads(encode_message(collect(spoken()), wanted))["usage"]["prompt_tokens"] == 12


@pytest.mark.req("ZG-12")
def test_thoughts_are_reasoning_content():
    draft, events = begun()
    events += draft.think("Hm") + draft.text("Yes") + draft.finish("end")
    assert deltas(events) == [{"reasoning_content": "Hm"}, {"content": "Yes"}]


@pytest.mark.req("CL-08")
def test_calls_are_told_one_after_the_other():
    draft, events = begun()
    events += draft.call("x", name="f", id="a") + draft.call("y", name="g", id="b")
    events += draft.arguments("y", '{"c":2}') + draft.arguments("x", '{"p"')
    events += draft.end("y") + draft.arguments("x", ":1}") + draft.finish("end")
    pieces = [delta["tool_calls"][0] for delta in deltas(events)]
    assert [piece["index"] for piece in pieces] == [0, 0, 0, 1, 1]
    assert pieces[0] == {
        "index": 0,
        "id": "a",
        "type": "function",
        "function": {"name": "f", "arguments": ""},
    }
    assert "".join(piece["function"]["arguments"] for piece in pieces[:3]) == '{"p":1}'
    assert pieces[4] == {"index": 1, "function": {"arguments": '{"c":2}'}}


def test_three_blocks_of_a_kind_wait_for_one_another():
    draft, events = begun()
    for key in "xyz":
        events += draft.text(key, key)
    for key in "zyx":
        events += draft.text(key.upper(), key)
    events += draft.end("y") + draft.finish("end")
    assert "".join(delta["content"] for delta in deltas(events)) == "xXyYzZ"


def test_a_call_without_arguments_is_told_as_an_empty_object():
    draft, events = begun()
    events += draft.call("x", name="f", id="a") + draft.finish("end")
    assert deltas(events)[-1] == {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}


FREEFORM = {"tools": (Tool("patch", freeform=True),)}


def test_a_tool_that_takes_free_text_is_called_with_it():
    draft, events = begun()
    events += draft.call("x", name="patch", id="a")
    events += draft.arguments("x", '{"input":') + draft.arguments("x", '"a\\n"}')
    events += draft.finish("end")
    head, rest = (delta["tool_calls"][0] for delta in deltas(events, asked(**FREEFORM)))
    assert head == {
        "index": 0,
        "id": "a",
        "type": "custom",
        "custom": {"name": "patch", "input": ""},
    }
    assert rest == {"index": 0, "custom": {"input": "a\n"}}
    body = loads(encode_message(collect(events), asked(**FREEFORM)))
    assert body["choices"][0]["message"]["tool_calls"] == [
        {"id": "a", "type": "custom", "custom": {"name": "patch", "input": "a\n"}}
    ]


@pytest.mark.parametrize(
    ("call", "input"),
    [
        (Call("a", "patch", {"input": {"x": 1}}), '{"x":1}'),
        (Call("a", "patch", {}), ""),
        (Call("a", "patch", raw="half"), "half"),
    ],
)
def test_free_text_is_text_whatever_the_model_wrote(call, input):
    message = collect(spoken()).__class__(content=(call,), stop="tool_use")
    told = loads(encode_message(message, asked(**FREEFORM)))["choices"][0]["message"]
    assert told["tool_calls"][0]["custom"]["input"] == input


def test_a_signature_of_gemini_goes_with_its_call():
    draft, events = begun()
    events += draft.call("x", name="f", id="a") + draft.arguments("x", "{}")
    draft.tag_call("x", Opaque("openai_chat", "thought_signature", "s"))
    events += draft.finish("end")
    assert deltas(events)[-1] == {
        "tool_calls": [{"index": 0, "extra_content": {"google": {"thought_signature": "s"}}}]
    }


def test_seals_of_this_api_are_told_and_others_are_not():
    draft, events = begun()
    events += draft.think("A") + draft.seal(Opaque("openai_chat", "signature", "s")) + draft.end()
    events += draft.think("B") + draft.seal(Opaque("anthropic", "signature", "t"))
    events += draft.finish("end")
    assert deltas(events) == [
        {"reasoning_content": "A"},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "s"}]},
        {"reasoning_content": "B"},
    ]


@pytest.mark.parametrize(
    ("citation", "annotation"),
    [
        (
            {"type": "url_citation", "url": "https://example.org", "title": "T", "start_index": 1, "end_index": 2},
            {
                "type": "url_citation",
                "url_citation": {"start_index": 2, "end_index": 3, "url": "https://example.org", "title": "T"},
            },
        ),
        (
            {"type": "web_search_result_location", "url": "https://example.org", "title": "T"},
            {
                "type": "url_citation",
                "url_citation": {"start_index": 1, "end_index": 5, "url": "https://example.org", "title": "T"},
            },
        ),
        ({"type": "page_location"}, None),
    ],
)  # fmt: skip
def test_citations_are_annotations_where_they_have_a_link(citation, annotation):
    draft, events = begun()
    events += draft.text("x") + draft.end() + draft.text("Rome")
    draft.cite(citation)
    events += draft.finish("end")
    told = [delta["annotations"] for delta in deltas(events) if "annotations" in delta]
    assert told == ([] if annotation is None else [[annotation]])
    body = loads(encode_message(collect(events), asked()))["choices"][0]["message"]
    assert body.get("annotations") == (None if annotation is None else [annotation])


def test_pictures_are_told_and_what_only_another_api_knows_is_not():
    draft, events = begun()
    events += draft.add(Image(url="https://example.org/a")) + draft.add(Foreign("x", "y", {}))
    events += draft.finish("end")
    assert deltas(events) == [
        {"images": [{"type": "image_url", "image_url": {"url": "https://example.org/a"}}]}
    ]


@pytest.mark.req("CL-05", "CB-22")
def test_a_failure_ends_with_an_error_and_without_done():
    draft, events = begun()
    events += draft.text("Hel") + draft.call("x", name="f", id="a")
    events += draft.arguments("x", '{"p"') + draft.call("y", name="g", id="b")
    events += draft.fail(Problem("overloaded", "busy"))
    *_, last = written(events)
    assert last["error"] == {
        "message": "busy",
        "type": "server_error",
        "param": None,
        "code": "overloaded",
    }
    assert deltas(events)[-1]["tool_calls"][0]["id"] == "b"


def test_an_encoder_is_silent_after_the_end():
    encoder = StreamEncoder(asked())
    events = spoken()
    for event in events:
        encoder.feed(event)
    assert encoder.feed(events[1]) == []
    assert encoder.close() == []


def test_a_sign_of_life_has_the_id_of_the_answer():
    encoder = StreamEncoder(asked())
    early = loads(encoder.keep_alive().removeprefix(b"data: "))
    assert early["choices"][0]["delta"] == {}
    frames = [piece for event in spoken() for piece in encoder.feed(event)]
    ids = {loads(piece.removeprefix(b"data: "))["id"] for piece in frames[:-1]}
    assert ids == {early["id"]}
    assert early["id"].startswith("chatcmpl-")


# ── whole bodies ──


def test_a_whole_body_says_everything():
    draft, events = begun()
    events += draft.think("Hm") + draft.seal(Opaque("openai_chat", "redacted", "z"))
    events += draft.text("Yes") + draft.call("x", name="f", id="a")
    events += draft.arguments("x", '{"p":1}') + draft.finish("end")
    body = loads(encode_message(collect(events), asked()))
    assert (body["id"], body["object"], body["created"]) == (
        "chatcmpl-1",
        "chat.completion",
        1700000000,
    )
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "Yes",
        "refusal": None,
        "reasoning_content": "Hm",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "z"}],
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"p":1}'}}
        ],
    }
    assert body["usage"]["total_tokens"] == 0


def test_no_text_is_null_beside_calls_and_empty_alone():
    def content(*parts):
        message = collect(spoken()).__class__(content=parts, stop="end")
        return loads(encode_message(message, asked()))["choices"][0]["message"]["content"]

    assert content(Call("a", "f")) is None
    assert content() == ""
    assert content(Text("x")) == "x"


def test_a_failed_message_is_an_error():
    draft, events = begun()
    events += draft.fail(Problem("truncated", "cut"))
    assert loads(encode_message(collect(events), asked()))["error"]["message"] == "cut"


# ── clients that offer functions ──

OLD = {"tools": (Tool("f", origin="openai_chat", native={"name": "f"}),)}


def old_call(*pieces, calls=1):
    draft, events = begun()
    for number in range(calls):
        events += draft.call(number, name="f", id=f"c{number}")
        for piece in pieces:
            events += draft.arguments(number, piece)
        events += draft.end(number)
    return events + draft.finish("end")


@pytest.mark.parametrize(("pieces", "written"), [(['{"a":', "1}"], ['{"a":', "1}"]), ([], ["{}"])])
def test_an_old_client_is_told_a_function_call(pieces, written):
    said = deltas(old_call(*pieces), asked(**OLD))
    first = {"function_call": {"name": "f", "arguments": ""}}
    assert said == [first, *({"function_call": {"arguments": piece}} for piece in written)]


def test_an_old_client_is_told_one_call():
    events = old_call('{"a":1}', calls=2)
    assert len(deltas(events, asked(**OLD))) == 2
    (choice,) = loads(encode_message(collect(events), asked(**OLD)))["choices"]
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"a":1}'}
    assert "tool_calls" not in choice["message"]


def test_an_old_client_reads_why_the_answer_ended():
    events = old_call('{"a":1}')
    (choice,) = loads(encode_message(collect(events), asked(**OLD)))["choices"]
    ends = [c["choices"][0]["finish_reason"] for c in written(events, asked(**OLD))[:-1]]
    assert choice["finish_reason"] == ends[-1] == "function_call"
    (spoke,) = loads(encode_message(collect(spoken()), asked(**OLD)))["choices"]
    assert spoke["finish_reason"] == "stop"


def test_what_an_old_client_is_told_can_be_read():
    data = b"".join(grammar.run(StreamEncoder(asked(**OLD)), old_call('{"a":1}')))
    (call,) = collect(decode(data)).calls
    assert (call.name, call.arguments) == ("f", {"a": 1})
