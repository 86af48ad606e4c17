import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies
from tests.codecs.ollama import recordings
from tests.properties import grammar
from tests.tables import every_row

from toolbridge.codecs.ollama.decode_stream import StreamDecoder
from toolbridge.codecs.ollama.rejections import decode_rejection
from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Call, Image, Text, Thinking
from toolbridge.core.usage import Usage

DONE = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}


def line(message=None, **fields):
    return {
        "model": "m",
        "message": {"role": "assistant", "content": "", **(message or {})},
        "done": False,
        **fields,
    }


def body(*lines):
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


def decode(data, seed="seed"):
    events = grammar.run(StreamDecoder(Ids(seed)), [data])
    grammar.check(events)
    return events


def message_of(*lines):
    return collect(decode(body(*lines)))


def calls_of(*tool_calls, **rest):
    return message_of(line({"tool_calls": list(tool_calls)}, **rest), DONE)


def function(name, arguments=None, **rest):
    return {"function": {"name": name, "arguments": arguments}, **rest}


# ── the real server ──


@pytest.mark.req("PX-50")
@every_row("recording", recordings.ANSWERS, ids=lambda recording: recording.name)
def test_a_recorded_answer_is_legal_and_the_same_one_byte_at_a_time(recording):
    whole = decode(recording.body)
    slow = grammar.run(StreamDecoder(Ids("seed")), [bytes([byte]) for byte in recording.body])
    assert grammar.joined(slow) == grammar.joined(whole)


@every_row("recording", recordings.ANSWERS, ids=lambda recording: recording.name)
def test_a_recorded_answer_cut_anywhere_is_never_a_success(recording):
    end = len(recording.body.rstrip(b"\n"))
    whole = decode(recording.body)
    for cut in range(0, end, 7):
        events = grammar.run(StreamDecoder(Ids("seed")), [recording.body[:cut]])
        grammar.check(events)
        assert isinstance(events[-1], ev.Failed), cut
        assert events[-1].problem.kind == "truncated"
        assert grammar.is_beginning(events[:-1], whole) or len(events) == 2


PARIS = {"city": "Paris", "unit": "c"}
I_SHOULD = Thinking("I should answer briefly.\n\n")
HELLO = Text("Hello from the tiny test model.")


@pytest.mark.req("PX-37", "PX-45", "ZG-21", "ZG-22")
@every_row(
    ("name", "content", "stop", "usage"),
    [
        ("jinja/chat", [HELLO], "end", Usage(5, 8)),
        ("jinja/chat_stream", [HELLO], "end", Usage(5, 8)),
        ("jinja/chat_think_true", [I_SHOULD, HELLO], "end", Usage(11, 16)),
        (
            "jinja/chat_tool",
            [Call("1gYttw5vyXf5rNMpm1d653uGCCzNm08T", "get_weather", PARIS)],
            "tool_use",
            Usage(216, 14),
        ),
        (
            "jinja/chat_tool2_stream",
            [
                Call("sBbcav3JcQY5Q22uEx1wUigZeKsCb9CE", "get_weather", {"city": "Berlin", "unit": "c"}),
                Call("3S3fNNnze6JjM3E5Al1GVE08BLZECvup", "get_weather", {"city": "Rome", "unit": "f"}),
            ],
            "tool_use",
            Usage(217, 11),
        ),
        (
            "jinja/chat_texttool_stream",
            [
                Text("Let me check.\n"),
                Call("FJ2fk8gUGzyLubJMdRSYc3hGRgfUIRHT", "get_weather", PARIS),
            ],
            "tool_use",
            Usage(217, 18),
        ),
        (
            "gotemplate/chat_thinktool_stream",
            [I_SHOULD, Call("call_c7rlqt4e", "get_weather", {"city": "Paris"})],
            "tool_use",
            Usage(180, 17),
        ),
        ("jinja/chat_unicode", [Text("Emoji: 😀 ok")], "end", Usage(10, 7)),
        (
            "jinja/chat_length",
            [Text("one two three four five six seven eight nine ten")],
            "length",
            Usage(10, 10),
        ),
        ("jinja/chat_empty", [], "end", Usage(10, 1)),
        ("jinja/chat_load", [], "end", Usage()),
        ("jinja/generate", [HELLO], "end", Usage(5, 8)),
    ],
)  # fmt: skip
def test_a_recorded_answer_says_what_the_server_said(name, content, stop, usage):
    message = collect(decode(recordings.read(name).body))
    assert list(message.content) == content
    counted = msgspec.structs.replace(message.usage, native={})
    assert (message.stop, counted) == (stop, usage)
    assert message.model == ("tiny" if name.startswith("jinja") else "tinygo")


@pytest.mark.parametrize("model", ["tiny", "tinygo"])
def test_a_killed_runner_is_a_failure_that_keeps_what_was_said(model):
    events = decode(recordings.read(f"midstream/api_chat_{model}").body)
    failed = events[-1]
    assert isinstance(failed, ev.Failed)
    assert failed.problem.text == (
        "an error was encountered while running the model: unexpected EOF"
    )
    assert collect(events).text.split()[:3] == ["one", "two", "three"]


# ── what a line may hold ──


@pytest.mark.req("PX-11")
def test_one_line_may_hold_thought_text_and_call_in_that_order():
    said = {"thinking": "hm", "content": "so", "tool_calls": [function("f", {"a": 1}, id="c1")]}
    content = message_of(line(said), DONE).content
    assert content == (Thinking("hm"), Text("so"), Call("c1", "f", {"a": 1}))


def test_an_empty_first_line_opens_no_block_and_loses_nothing():
    events = decode(body(line(), line({"thinking": "hm"}), line({"content": "so"}), DONE))
    assert [type(event).__name__ for event in events[:3]] == [
        "Started",
        "ThinkingStart",
        "ThinkingDelta",
    ]


@pytest.mark.req("ZG-21", "ZG-32", "ZG-35")
def test_every_call_of_the_list_is_read():
    calls = [function("f", {"a": 1}), function("g", {"b": [2]})]
    message = message_of(line({"tool_calls": calls}), DONE)
    assert [(c.name, c.arguments) for c in message.calls] == [("f", {"a": 1}), ("g", {"b": [2]})]
    assert message.stop == "tool_use"


@pytest.mark.req("PX-37")
def test_calls_without_ids_get_ids_that_differ():
    message = message_of(line({"tool_calls": [function("f", {}), function("f", {})]}), DONE)
    first, second = [call.id for call in message.calls]
    assert first != second
    assert all(re.fullmatch("toolu_[0-9a-f]{16}", id) for id in (first, second))


@pytest.mark.req("PX-45")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_calls_may_stand_in_any_line(place):
    lines = [line({"content": "a"}), line({"content": "b"}), {**DONE}]
    lines[place] = {
        **lines[place],
        "message": {**lines[place]["message"], "tool_calls": [function("f", {})]},
    }
    message = message_of(*lines)
    assert [call.name for call in message.calls] == ["f"]
    assert (message.text, message.stop) == ("ab", "tool_use")


@pytest.mark.req("PX-08", "PX-37")
@every_row(
    ("arguments", "call"),
    [
        ({"a": [1, {"b": None}]}, Call("c", "f", {"a": [1, {"b": None}]})),
        ('{"a":1}', Call("c", "f", {"a": 1})),
        ("", Call("c", "f")),
        (None, Call("c", "f")),
        ({}, Call("c", "f")),
        ('{\\"a\\":1}', Call("c", "f", raw='{\\"a\\":1}')),
        ("{'a': 1,}", Call("c", "f", raw="{'a': 1,}")),
        ([1], Call("c", "f", raw="[1]")),
        ("not-json", Call("c", "f", raw="not-json")),
    ],
)
def test_arguments_are_an_object_or_the_text_of_one(arguments, call):
    assert calls_of(function("f", arguments, id="c")).calls == (call,)


def test_the_keys_of_arguments_keep_their_order():
    events = decode(body(line({"tool_calls": [function("f", {"z": 1, "a": 2})]}), DONE))
    assert [event.json for event in events if isinstance(event, ev.CallDelta)] == ['{"z":1,"a":2}']


def test_a_missing_or_repeated_id_is_replaced_and_a_given_one_kept():
    ids = [
        call.id
        for call in calls_of(
            function("f", {}, id="call_1"), function("f", {}, id="call_1"), function("f", {})
        ).calls
    ]
    assert ids[0] == "call_1"
    assert len(set(ids)) == 3
    assert all(id.startswith("toolu_") for id in ids[1:])


def test_text_after_a_call_is_a_new_block():
    message = message_of(
        line({"content": "a"}),
        line({"tool_calls": [function("f", {}, id="c")]}),
        line({"content": "b"}),
        DONE,
    )
    assert message.content == (Text("a"), Call("c", "f"), Text("b"))
    assert message.stop == "tool_use"


@every_row("reason", ["stop", "load", "unload", "", None, "brand_new"])
def test_any_other_done_reason_than_length_is_an_end(reason):
    assert message_of(line(done=True, done_reason=reason)).stop == "end"


@every_row(
    ("counts", "usage"),
    [
        ({"prompt_eval_count": 3}, Usage(3, 0)),
        ({"eval_count": 4}, Usage(0, 4)),
        ({"prompt_eval_count": 3, "eval_count": 4}, Usage(3, 4)),
        ({}, Usage()),
    ],
)
def test_a_count_of_zero_is_left_out_by_the_server(counts, usage):
    assert message_of({**DONE, **counts}).usage == usage


def test_length_stands_even_beside_a_call():
    lines = line({"tool_calls": [function("f", {})]}, done=True, done_reason="length")
    assert message_of(lines).stop == "length"


def test_nulls_and_strangers_change_nothing():
    plain = [line({"content": "a"}), line({"content": "b"}, done=True)]
    strange = [
        line(
            {"content": "a", "thinking": None, "tool_calls": None, "images": None, "x": [1]},
            done_reason=None,
            eval_count=None,
            logprobs=[{"token": "a"}],
            remote_model="far",
        ),
        line({"content": None}),
        {"model": "m", "message": None, "done": None},
        {"type": "something_new"},
        line({"content": "b"}, done=True),
    ]
    assert message_of(*strange) == message_of(*plain)


def test_a_picture_in_an_answer_is_kept():
    png = "iVBORw0KGgoAAAAN"
    assert message_of(line({"images": [png]}), DONE).content == (Image(png, "image/png"),)


def test_half_a_surrogate_pair_is_joined_over_two_lines_and_replaced_alone():
    halves = b'{"message":{"content":"\\ud83d"}}\n{"message":{"content":"\\ude00"},"done":true}\n'
    assert collect(decode(halves)).text == "😀"
    alone = b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":"\\ud83d"}}}]},"done":true}'
    assert collect(decode(alone)).calls[0].arguments == {"a": "\ufffd"}


@given(strategies.texts, strategies.texts, st.data())
def test_any_cut_of_the_bytes_gives_the_same_events(thought, text, data):
    said = line({"thinking": thought, "content": text})
    wire = body(said, line({"tool_calls": [function("f", {"a": text})]}), said, DONE)
    raw = json.dumps(said, ensure_ascii=False).encode() + b"\r\n" + wire
    pieces = data.draw(strategies.cuts(raw))
    cut = grammar.run(StreamDecoder(Ids("seed")), pieces)
    assert grammar.joined(cut) == grammar.joined(decode(raw))


# ── bad ends ──


@every_row(
    ("data", "kind"),
    [
        (b"", "truncated"),
        (body(line({"content": "a"})), "truncated"),
        (body(line({"content": "a"})) + body(DONE)[:-5], "truncated"),
        (b"<html>\n<body>no</body></html>", "broken_wire"),
        (b"<html>no</html>", "broken_wire"),
        (b'{"message":7}', "broken_wire"),
        (b"[1]", "broken_wire"),
        (body(line({"content": "a"})) + b"oops\n" + body(DONE), "broken_wire"),
        (b'{"error":"boom"}', "rejected"),
        (b'{"error":{"message":"boom","code":503}}', "overloaded"),
        (b'{"error":"{\\"error\\":{\\"code\\":503,\\"message\\":\\"boom\\"}}"}', "overloaded"),
    ],
)
def test_a_bad_end_is_a_failure(data, kind):
    failed = decode(data)[-1]
    assert isinstance(failed, ev.Failed)
    assert failed.problem.kind == kind


def test_a_line_without_end_is_refused():
    decoder = StreamDecoder(Ids())
    events = []
    for _ in range(10):
        events += decoder.feed(b" " * (1 << 20))
    events += decoder.close()
    grammar.check(events)
    assert events[-1].problem.kind == "broken_wire"


def test_a_line_without_end_after_a_good_one_is_refused_at_the_close():
    decoder = StreamDecoder(Ids())
    events = decoder.feed(body(line({"content": "a"})) + b" " * (9 << 20)) + decoder.close()
    grammar.check(events)
    assert events[-1].problem.kind == "broken_wire"
    assert collect(events).text == "a"


def test_nothing_is_said_after_the_end():
    decoder = StreamDecoder(Ids())
    assert isinstance(decoder.feed(body(DONE) + body(line({"content": "late"})))[-1], ev.Finished)
    assert decoder.feed(body(line({"content": "later"}))) == []
    assert decoder.close() == []


# ── rejections ──


@every_row(
    ("name", "kind", "text"),
    [
        ("chat_404", "unknown_model", "model 'nope' not found"),
        ("chat_badopt", "rejected", 'option "num_ctx" must be of type integer'),
        ("chat_toolong", "context_overflow", "prompt is too long: 60003 tokens > 8192 maximum"),
        (
            "chat_tools_unsupported",
            "unsupported",
            "registry.ollama.ai/library/smollm2:latest does not support tools",
        ),
        ("chat_think_unsupported", "thinking_not_supported", '"smollm2" does not support thinking'),
        (
            "chat_image",
            "unsupported",
            (
                "image input is not supported - hint: if this is unexpected, "
                "you may need to provide the mmproj"
            ),
        ),
        ("chat_nomodel", "rejected", "model is required"),
        ("chat_badjson", "rejected", "unexpected EOF"),
    ],
)
def test_a_recorded_rejection_is_understood(name, kind, text):
    recording = recordings.read(f"jinja/{name}")
    problem = decode_rejection(recording.status, recording.headers, recording.body)
    assert (problem.kind, problem.text, problem.status) == (kind, text, recording.status)


@every_row("recording", recordings.REJECTIONS, ids=lambda recording: recording.name)
def test_every_recorded_rejection_has_words_and_its_status(recording):
    problem = decode_rejection(recording.status, recording.headers, recording.body)
    assert problem.status == recording.status
    assert problem.text
    assert not problem.text.startswith("{")


@every_row(
    ("status", "said", "kind", "text"),
    [
        (429, b'{"error":"slow down"}', "rate_limited", "slow down"),
        (503, b'{"error":"server busy, please try again"}', "overloaded", None),
        (529, b"", "overloaded", "the upstream answered 529"),
        (504, b"<html>", "timed_out", "<html>"),
        (413, b'{"error":"big"}', "too_large", "big"),
        (404, b"404 page not found", "rejected", "404 page not found"),
        (500, b'{"error":"server busy"}', "overloaded", "server busy"),
        (401, b'{"error":"unauthorized","signin_url":"https://x/y"}', "rejected",
         "unauthorized; sign in at https://x/y"),
        (400, b'{"error":"the input length exceeds the context length"}', "context_overflow",
         "prompt is too long: the input length exceeds the context length"),
        (500, b'{"error":"{half"}', "rejected", "{half"),
        (500, b'{"what":1}', "rejected", '{"what":1}'),
        (500, b"7", "rejected", "7"),
        (500, b'{"error":{"error":{"error":{"error":{"error":"deep"}}}}}', "rejected",
         '{"error":"deep"}'),
    ],
)  # fmt: skip
def test_a_rejection_is_read_by_its_words_then_by_its_status(status, said, kind, text):
    problem = decode_rejection(status, {}, said)
    assert (problem.kind, problem.status) == (kind, status)
    assert text is None or problem.text == text


def test_the_time_to_wait_is_read_whatever_the_case_of_its_header():
    assert decode_rejection(429, {"Retry-After": "7"}, b"{}").retry_after == 7.0
    assert decode_rejection(429, {"retry-after": "Mon, 1 Jan"}, b"{}").retry_after is None


def test_an_overflow_in_mid_stream_is_one_too():
    inner = json.dumps(
        {"error": {"message": "request (9 tokens) exceeds the available context size (8 tokens)"}}
    )
    failed = decode(body({"error": inner}))[-1]
    assert failed.problem.kind == "context_overflow"
    assert failed.problem.text == "prompt is too long: 9 tokens > 8 maximum"


@every_row(("given", "counted"), [("2.5", 0), ("2.0", 2), ("1e400", 0), ("-3", 0), ("7", 7)])
def test_an_odd_count_does_not_spoil_an_answer(given, counted):
    line = '{"message":{"content":"Hi"},"done":true,"eval_count":' + given + "}\n"
    decoder = StreamDecoder(Ids("x"))
    events = decoder.feed(line.encode()) + decoder.close()
    assert isinstance(events[-1], ev.Finished)
    assert collect(events).usage.output == counted
