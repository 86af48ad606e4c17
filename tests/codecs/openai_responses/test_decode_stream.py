import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies
from tests.codecs.openai_responses import recordings
from tests.properties import grammar
from tests.tables import every_row

from toolbridge.codecs.openai_responses.decode_stream import StreamDecoder
from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Call, Foreign, Opaque, Text, Thinking
from toolbridge.core.usage import Usage

ORIGIN = "openai_responses"
CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}}
COMPLETED = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}


def body(*frames):
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)


def decode(data, seed="seed"):
    events = grammar.run(StreamDecoder(Ids(seed)), [data])
    grammar.check(events)
    slow = grammar.run(StreamDecoder(Ids(seed)), [bytes([byte]) for byte in data])
    assert grammar.joined(slow) == grammar.joined(events)
    return events


def read(*frames):
    return decode(body(CREATED, *frames))


def message_of(*frames, end=COMPLETED):
    return collect(read(*frames, end))


def completed(*output, **fields):
    return {"type": "response.completed", "response": {"output": list(output), **fields}}


def event(type, output_index=0, **fields):
    return {"type": f"response.{type}", "output_index": output_index, **fields}


def added(item, output_index=0):
    return event("output_item.added", output_index, item=item)


def done(item, output_index=0):
    return event("output_item.done", output_index, item=item)


def call(arguments="", **fields):
    return {
        "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look",
        "arguments": arguments, **fields,
    }  # fmt: skip


def message(text="", **fields):
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **fields}


LOOK = Call("call_1", "look", {"a": 1}, opaque=(Opaque(ORIGIN, "item", "fc_1"),))
HELLO = Text("Hello", opaque=(Opaque(ORIGIN, "item", "msg_1"),))


# ── real servers ──


@every_row("recording", recordings.ANSWERS, ids=lambda recording: recording.name)
def test_a_recorded_answer_is_read_whole(recording):
    events = decode(recording.body)
    if recording.name.endswith("killed"):
        assert events[-1].problem.kind == "truncated"
    else:
        assert isinstance(events[-1], ev.Finished)
        assert collect(events).usage.output
        assert collect(events).content


@pytest.mark.parametrize("server", ["llamacpp/resp", "vllm/resp", "ollama/v1_resp"])
def test_a_recorded_call_has_its_arguments(server):
    (called,) = collect(decode(recordings.read(f"{server}_tool_stream").body)).calls
    assert called.name == "look" or called.name == "get_weather"
    assert called.arguments["city"] == "Paris"


@pytest.mark.parametrize("server", ["llamacpp", "vllm"])
def test_a_recorded_thought_comes_before_what_was_said(server):
    read = collect(decode(recordings.read(f"{server}/resp_think_stream").body))
    thought, said = read.content
    assert thought.text.strip() == "I should answer briefly."
    assert said.text.strip() == "Hello from the tiny test model."


def test_a_server_that_ends_items_late_does_not_hold_back_what_it_says():
    events = decode(recordings.read("llamacpp/resp_think_stream").body)
    kinds = [type(event) for event in events]
    assert kinds.index(ev.ThinkingEnd) < kinds.index(ev.TextDelta)


def test_a_recorded_cut_is_a_length():
    assert collect(decode(recordings.read("vllm/resp_length").body)).stop == "length"


# ── text ──


@pytest.mark.req("ZG-17")
def test_text_comes_as_it_is_written():
    events = read(
        added(message()),
        event("output_text.delta", item_id="msg_1", content_index=0, delta="He"),
        event("output_text.delta", item_id="msg_1", content_index=0, delta="llo"),
        event("output_text.done", item_id="msg_1", content_index=0, text="Hello"),
        done(message("Hello")),
        completed(message("Hello")),
    )
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == ["He", "llo"]
    assert collect(events).content == (HELLO,)


@every_row(
    "frames",
    [
        [done(message("Hello")), COMPLETED],
        [added(message()), event("output_text.done", text="Hello"), COMPLETED],
        [event("output_text.delta", item_id="msg_1", delta="Hello"), COMPLETED],
        [completed(message("Hello"))],
        [
            added(message()),
            event("output_text.delta", delta="He"),
            done(message("Hello")),
            COMPLETED,
        ],
        [event("output_text.delta", item_id="msg_1", delta="He"), completed(message("Hello"))],
    ],
    ids=["item", "part", "unannounced", "last", "half", "half-last"],
)
def test_text_is_read_wherever_it_stands_and_once(frames):
    assert message_of(*frames[:-1], end=frames[-1]).content == (HELLO,)


def test_a_late_end_that_repeats_what_was_said_adds_nothing():
    said = message_of(
        {"type": "response.output_item.added", "item": message()},
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hello"},
        {"type": "response.output_item.added", "item": call()},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": '{"a":1}'},
        {"type": "response.output_text.done", "item_id": "msg_1", "text": "Hello"},
        {"type": "response.output_item.done", "item": message("Hello")},
        {"type": "response.output_item.done", "item": call('{"a":1}')},
    )
    assert said.content == (HELLO, LOOK)


def test_parts_of_a_message_are_texts_of_their_own():
    two = [{"type": "output_text", "text": text} for text in ("one", "two")]
    said = message_of(done(message() | {"content": two}))
    assert [part.text for part in said.content] == ["one", "two"]
    assert [bool(part.opaque) for part in said.content] == [True, False]


def test_the_phase_of_a_message_is_kept_with_its_id():
    (said,) = message_of(done(message("Hello", phase="commentary"))).content
    assert json.loads(said.opaque[0].value) == {"id": "msg_1", "phase": "commentary"}


def test_annotations_are_citations():
    cited = {"type": "url_citation", "url": "https://example.org", "start_index": 0, "end_index": 5}
    frames = [
        event("output_text.delta", delta="Hello"),
        event("output_text.annotation.added", annotation_index=0, annotation=cited),
    ]
    assert message_of(*frames).content[0].citations == (cited,)
    whole = message() | {"content": [{"type": "output_text", "text": "x", "annotations": [cited]}]}
    assert message_of(*frames, done(whole)).content[0].citations == (cited,)


def test_a_refusal_is_said_and_stops_the_answer():
    refused = {"type": "refusal", "refusal": "I will not."}
    said = message_of(
        added(message()),
        event("refusal.delta", delta="I will "),
        done(message() | {"content": [refused]}),
    )
    assert said.text == "I will not."
    assert said.stop == "refusal"


# ── calls ──


@pytest.mark.req("ZG-13", "ZG-14", "ZG-15", "ZG-32")
def test_a_call_begins_with_its_item_and_ends_with_it():
    events = read(
        added(call()),
        event("function_call_arguments.delta", item_id="fc_1", delta='{"a"'),
        event("function_call_arguments.delta", item_id="fc_1", delta=":1}"),
        event("function_call_arguments.done", item_id="fc_1", arguments='{"a":1}'),
        done(call('{"a":1}')),
        COMPLETED,
    )
    assert [type(event) for event in events[1:5]] == [
        ev.CallStart, ev.CallDelta, ev.CallDelta, ev.CallEnd,
    ]  # fmt: skip
    assert collect(events).content == (LOOK,)
    assert collect(events).stop == "tool_use"


@pytest.mark.req("ZG-15")
@every_row(
    "frames",
    [
        [added(call()), event("function_call_arguments.done", arguments='{"a":1}'), COMPLETED],
        [added(call()), done(call('{"a":1}')), COMPLETED],
        [added(call('{"a":1}')), done(call()), COMPLETED],
        [done(call('{"a":1}')), COMPLETED],
        [completed(call('{"a":1}'))],
        [
            added(call()),
            event("function_call_arguments.delta", delta='{"a'),
            completed(call('{"a":1}')),
        ],
        [event("function_call_arguments.delta", delta='{"a":'), done(call('{"a":1}')), COMPLETED],
        [event("function_call_arguments.delta", delta='{"a":1}'), completed(call())],
    ],
    ids=["done", "item", "start", "only-item", "last", "half", "no-name-yet", "name-last"],
)
def test_arguments_are_read_wherever_they_stand_and_once(frames):
    assert message_of(*frames[:-1], end=frames[-1]).content == (LOOK,)


def test_a_call_without_arguments_has_none():
    (called,) = message_of(added(call()), done(call())).calls
    assert called.arguments == {}
    assert not called.raw


def test_calls_that_interleave_keep_their_arguments():
    second = call(id="fc_2", call_id="call_2")
    said = message_of(
        added(call()),
        added(second, 1),
        event("function_call_arguments.delta", 1, delta='{"b"'),
        event("function_call_arguments.delta", 0, delta='{"a"'),
        event("function_call_arguments.delta", 1, delta=":2}"),
        event("function_call_arguments.delta", 0, delta=":1}"),
        done(second | {"arguments": '{"b":2}'}, 1),
        done(call('{"a":1}')),
    )
    assert [one.arguments for one in said.calls] == [{"a": 1}, {"b": 2}]


def test_ids_that_change_under_one_number_are_one_item():
    said = message_of(
        added(call(id="fc_a")),
        event("function_call_arguments.delta", item_id="fc_b", delta='{"a":1}'),
        done(call('{"a":1}', id="fc_c")),
        end=completed(call('{"a":1}', id="fc_d")),
    )
    assert [one.arguments for one in said.calls] == [{"a": 1}]


def test_two_calls_under_one_number_are_two():
    second = call('{"b":2}', id="fc_2", call_id="call_2")
    said = message_of(
        added(call()), event("function_call_arguments.delta", item_id="fc_1", delta='{"a":1}'),
        added(second), done(call('{"a":1}')), done(second),
    )  # fmt: skip
    assert [one.arguments for one in said.calls] == [{"a": 1}, {"b": 2}]


def test_events_without_a_number_belong_to_the_item_of_their_id():
    bare = [
        {"type": "response.output_item.added", "item": call()},
        {"type": "response.output_item.added", "item": call(id="fc_2", call_id="call_2")},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_2", "delta": '{"b":2}'},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": '{"a":1}'},
    ]
    assert [one.arguments for one in message_of(*bare).calls] == [{"a": 1}, {"b": 2}]


def test_a_call_of_a_namespace_has_its_full_name():
    (called,) = message_of(done(call("{}", namespace="agents"))).calls
    assert called.name == "agents__look"


def test_a_call_that_was_cut_is_never_a_whole_one():
    half = {
        "type": "response.incomplete",
        "response": {"incomplete_details": {"reason": "max_output_tokens"}},
    }
    said = message_of(
        added(call()), event("function_call_arguments.delta", delta='{"a":'), end=half
    )
    assert said.stop == "length"
    assert said.calls[0].raw == '{"a":'


# ── calls with free text ──


def free(text="", **fields):
    return {
        "type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "patch",
        "input": text, **fields,
    }  # fmt: skip


def piece(delta):
    return event("custom_tool_call_input.delta", item_id="ctc_1", delta=delta)


@given(st.lists(strategies.texts, max_size=4))
def test_free_text_is_the_one_string_of_the_arguments(pieces):
    text = "".join(pieces)
    (called,) = message_of(added(free()), *map(piece, pieces), done(free(text))).calls
    assert called.arguments == {"input": text}


def test_free_text_is_streamed():
    events = read(
        added(free()), piece('say "hi"\n'), piece("now"), done(free('say "hi"\nnow')), COMPLETED
    )
    written = [event.json for event in events if isinstance(event, ev.CallDelta)]
    assert written == ['{"input":"say \\"hi\\"\\n', "now", '"}']


def test_free_text_that_comes_only_at_the_end_is_read():
    (called,) = message_of(event("custom_tool_call_input.done", input="x"), done(free())).calls
    assert called == Call(
        "call_1", "patch", {"input": "x"}, opaque=(Opaque(ORIGIN, "item", "ctc_1"),)
    )


def test_a_surrogate_pair_cut_between_two_pieces_is_whole_again():
    halves = [
        rb'{"type":"response.custom_tool_call_input.delta","output_index":0,"delta":"a\ud83d"}',
        rb'{"type":"response.custom_tool_call_input.delta","output_index":0,"delta":"\ude00b"}',
    ]
    data = body(CREATED, added(free())) + b"".join(b"data: " + one + b"\n\n" for one in halves)
    (called,) = collect(decode(data + body(COMPLETED))).calls
    assert called.arguments == {"input": "a\U0001f600b"}


@pytest.mark.parametrize("last", [[done(free("half", status="incomplete"))], []])
def test_free_text_that_was_cut_is_never_a_whole_call(last):
    cut = {"type": "response.incomplete", "response": {"status": "incomplete"}}
    (called,) = message_of(added(free()), piece("half"), *last, end=cut).calls
    assert called.raw == '{"input":"half'


# ── thoughts ──


def thought(**fields):
    return {"type": "reasoning", "id": "rs_1", "summary": [], **fields}


def summary(*texts):
    return [{"type": "summary_text", "text": text} for text in texts]


def test_a_summary_is_a_thought_and_its_seal_comes_with_the_end():
    said = message_of(
        added(thought(encrypted_content="not yet")),
        event("reasoning_summary_part.added", summary_index=0, part={"type": "summary_text"}),
        event("reasoning_summary_text.delta", summary_index=0, delta="Let me"),
        event("reasoning_summary_text.done", summary_index=0, text="Let me think"),
        done(thought(summary=summary("Let me think"), encrypted_content="sealed")),
    )
    seals = (Opaque(ORIGIN, "encrypted", "sealed"), Opaque(ORIGIN, "item", "rs_1"))
    assert said.content == (Thinking("Let me think", seals),)


def test_parts_of_a_summary_are_paragraphs_and_are_kept_as_they_were():
    said = message_of(
        event("reasoning_summary_text.delta", summary_index=0, delta="one"),
        event("reasoning_summary_text.delta", summary_index=1, delta="two"),
        done(thought(summary=summary("one", "two", "three"))),
    )
    (thinking,) = said.content
    assert thinking.text == "one\n\ntwo\n\nthree"
    assert json.loads(thinking.opaque[0].value)["summary"] == summary("one", "two", "three")


def test_a_hidden_thought_is_nothing_but_its_seal():
    (thinking,) = message_of(added(thought()), done(thought(encrypted_content="sealed"))).content
    assert thinking.text == ""
    assert thinking.opaque[0] == Opaque(ORIGIN, "encrypted", "sealed")


def test_a_thought_without_words_and_seal_is_none():
    assert message_of(added(thought()), done(thought(encrypted_content=""))).content == ()


def test_of_a_thought_and_its_summary_the_first_is_read():
    said = message_of(
        event("reasoning_text.delta", delta="raw"),
        event("reasoning_summary_text.delta", delta="short"),
        done(
            thought(summary=summary("short"), content=[{"type": "reasoning_text", "text": "raw"}])
        ),
    )
    assert said.thinking == "raw"


@pytest.mark.req("ZG-16")
@pytest.mark.parametrize("delta", ["hm", {"text": "hm"}])
def test_early_reasoning_events_are_thoughts(delta):
    said = message_of(
        {"type": "response.reasoning.delta", "delta": delta},
        {"type": "response.reasoning.done", "text": "hmm"},
        {"type": "response.output_text.delta", "delta": "Hello"},
    )
    assert [part.text for part in said.content] == ["hmm", "Hello"]


def test_our_own_ids_are_not_kept():
    (said,) = message_of(done(message("Hello", id="msg_tb1_x_0"))).content
    assert said == Text("Hello")


# ── other items, other events ──


def test_an_item_of_another_type_is_kept_whole():
    search = {"type": "brand_new_call", "id": "b_1", "status": "completed", "arguments": {"q": 1}}
    said = message_of(added(search | {"status": "in_progress"}), done(search))
    assert said.content == (Foreign(ORIGIN, "brand_new_call", search),)


@every_row(
    "frame",
    [
        {"type": "response.web_search_call.searching", "output_index": "?"},
        {"type": "response.brand_new", "delta": [1], "item": 3},
        {"type": "response.queued", "response": {}},
        {},
    ],
)
def test_an_unknown_event_changes_nothing(frame):
    assert message_of(frame, done(message("Hello"))).content == (HELLO,)


def test_a_stray_done_changes_nothing():
    data = body(CREATED, done(message("Hello"))) + b"data: [DONE]\n\n" + body(COMPLETED)
    assert collect(decode(data)).content == (HELLO,)


# ── the end ──


def test_usage_counts_everything_once():
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {
            "cached_tokens": 60, "cache_write_tokens": 30,
            "cache_write_tokens_details": {"ttl_30m_tokens": 20, "ttl_12h_tokens": 10},
        },
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
    }  # fmt: skip
    assert message_of(end=completed(usage=usage)).usage == Usage(10, 9, 60, 30, 10, 4)


@every_row(
    ("reason", "stop"),
    [
        ("max_output_tokens", "length"),
        ("content_filter", "refusal"),
        ("max_messages", "length"),
        (None, "length"),
    ],
)
def test_an_incomplete_answer_says_why(reason, stop):
    end = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}}
    assert message_of(done(message("Hello")), end=end).stop == stop


@pytest.mark.req("CL-05")
@every_row(
    ("end", "kind"),
    [
        ({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}}, "rejected"),
        ({"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": "x"}}}, "rate_limited"),
        ({"type": "response.failed", "response": {}}, "rejected"),
        ({"type": "error", "code": "server_is_overloaded", "message": "busy"}, "overloaded"),
        ({"type": "error", "error": {"message": "m", "type": "slow_down", "code": 500}}, "overloaded"),
        ({"error": {"message": "died"}}, "rejected"),
        ({"type": "response.cancelled", "response": {}}, "aborted"),
        ({"type": "response.completed", "response": {"status": "failed", "error": {"message": "x"}}}, "rejected"),
    ],
)  # fmt: skip
def test_a_failure_keeps_what_came_before(end, kind):
    events = read(added(call()), event("function_call_arguments.delta", delta='{"a":1'), end)
    assert events[-1].problem.kind == kind
    assert collect(events).calls[0].raw == '{"a":1'
    assert not any(isinstance(event, ev.CallEnd) for event in events)


@pytest.mark.req("CL-05")
def test_a_stream_that_just_ends_is_truncated():
    events = read(added(message()), event("output_text.delta", delta="He"))
    assert events[-1].problem.kind == "truncated"


# ── whole bodies ──


def whole(**fields):
    return json.dumps({"id": "resp_1", "model": "m", "error": None, **fields}).encode()


def test_a_whole_body_is_a_stream_that_came_at_once():
    items = [
        thought(encrypted_content="s"),
        message("Hello"),
        call('{"a":1}'),
        free("x", call_id="call_2"),
    ]
    said = collect(decode(whole(status="completed", output=items)))
    assert [type(part) for part in said.content] == [Thinking, Text, Call, Call]
    assert said.id == "resp_1"
    assert said.stop == "tool_use"


@every_row(
    ("data", "kind"),
    [
        (
            whole(status="failed", output=[], error={"code": "server_error", "message": "x"}),
            "rejected",
        ),
        (whole(status="queued", output=[]), "truncated"),
        (
            whole(status="incomplete", output=[{"type": "function_call", "arguments": 1}]),
            "broken_wire",
        ),
        (b'{"error":{"message":"no","type":"invalid_request_error"}}', "rejected"),
        (b'{"object":"list"}', "broken_wire"),
    ],
)
def test_a_body_that_is_no_answer_fails(data, kind):
    assert decode(data)[-1].problem.kind == kind


# ── what servers do beyond the grammar ──


@pytest.mark.parametrize("numbered", [True, False])
def test_an_item_announced_twice_is_one(numbered):
    frames = [added(call()), added(message(), 1), added(call()), done(call('{"a":1}'))]
    bare = [{k: v for k, v in frame.items() if k != "output_index"} for frame in frames]
    assert message_of(*(frames if numbered else bare)).content == (LOOK,)


def test_two_items_of_one_id_are_two_where_their_numbers_differ():
    said = message_of(
        added(message()),
        event("output_text.delta", item_id="msg_1", delta="one"),
        done(message("one")),
        added(message(), 1),
        event("output_text.delta", 1, item_id="msg_1", delta="two"),
        done(message("two"), 1),
    )
    assert [part.text for part in said.content] == ["one", "two"]


@pytest.mark.parametrize(
    "late",
    [
        event("function_call_arguments.delta", item_id="fc_1", delta="x"),
        event("function_call_arguments.done", item_id="fc_1", arguments='{"a":1}x'),
        done(call('{"a":2}')),
    ],
)
def test_what_comes_after_the_end_of_an_item_is_not_read(late):
    assert message_of(done(call('{"a":1}')), late).content == (LOOK,)


@pytest.mark.parametrize(
    "late",
    [
        event("output_text.delta", item_id="msg_1", delta="x"),
        event("output_text.done", item_id="msg_1", text="Hello, you"),
        done(message("Hello, you")),
    ],
)
def test_nothing_is_said_after_the_end_of_a_message(late):
    assert message_of(done(message("Hello")), late).content == (HELLO,)


def test_an_event_without_number_and_id_belongs_to_the_last_item():
    said = message_of(
        added(call()),
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": '{"a"'},
        {"type": "response.function_call_arguments.delta", "delta": ":1}"},
    )
    assert said.content == (LOOK,)


def test_an_announcement_of_another_type_ends_what_was_there():
    said = message_of(event("output_text.delta", delta="Hello"), done(call('{"a":1}')))
    assert [type(part) for part in said.content] == [Text, Call]


def test_line_ends_before_the_first_event_are_passed_over():
    decoder = StreamDecoder(Ids("seed"))
    assert decoder.feed(b"\n") == []
    assert decoder.feed(body(CREATED, done(message("Hello")), COMPLETED))[-1].reason == "end"


def test_a_frame_that_is_no_json_fails():
    events = decode(body(CREATED) + b"data: {oops}\n\n")
    assert events[-1].problem.kind == "broken_wire"


def test_a_frame_of_a_known_type_with_a_wrong_shape_fails():
    events = read({"type": "response.output_text.delta", "output_index": "zero", "delta": "x"})
    assert events[-1].problem.kind == "broken_wire"


def test_nothing_is_read_after_the_end():
    said = message_of(done(message("Hello")), end=COMPLETED)
    decoder = StreamDecoder(Ids("seed"))
    data = body(CREATED, done(message("Hello")), COMPLETED)
    first = decoder.feed(data)
    assert collect(first).content == said.content
    assert decoder.feed(data) + decoder.close() == []


def test_a_thought_in_full_is_kept_in_full_although_its_own_end_comes_late():
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": []}
    whole = thought | {"content": [{"type": "reasoning_text", "text": "Hm, so."}]}
    piece = {"type": "response.reasoning_text.delta", "item_id": "rs_1"}
    frames = [
        {"type": "response.output_item.added", "item": thought},
        piece | {"delta": "Hm,"},
        piece | {"delta": " so."},
        {"type": "response.output_item.added", "item": call()},
        {"type": "response.output_item.done", "item": whole},
        {"type": "response.output_item.done", "item": call("{}")},
        completed(whole, call("{}")),
    ]
    found = message_of(*frames[:-1], end=frames[-1]).content[0]
    assert found.text == "Hm, so."
    kept = json.loads(found.opaque[0].value)
    assert kept == {"id": "rs_1", "content": whole["content"]}


def test_a_part_of_a_message_that_events_cannot_hold_is_a_loss():
    parts = [{"type": "output_audio", "data": "AAAA", "transcript": "Hi"}, {"type": "a b\nc"}]
    reply = {"id": "resp_1", "status": "completed", "output": [
        {"type": "message", "id": "msg_1", "role": "assistant", "content": parts}]}  # fmt: skip
    decoder = StreamDecoder(Ids("x"))
    message = collect(decoder.feed(json.dumps(reply).encode()) + decoder.close())
    assert message.text == "Hi"
    assert [loss.what for loss in message.losses] == ["answer.output_audio", "answer.a_b_c"]
