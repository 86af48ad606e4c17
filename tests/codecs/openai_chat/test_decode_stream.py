import json

import pytest
from tests.codecs.openai_chat import recordings
from tests.codecs.openai_chat.streams import DONE, calls, chunk, decode, entry, frame, message
from tests.properties import grammar
from tests.tables import every_row

from toolbridge.codecs.openai_chat.decode_stream import StreamDecoder
from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Call, Image, Opaque, Text, Thinking
from toolbridge.core.usage import Usage


def failure(data):
    events = decode(data)
    assert isinstance(events[-1], ev.Failed)
    return collect(events)


# ── real servers ──


@pytest.mark.req("PX-50")
@every_row("recording", recordings.ANSWERS, ids=lambda recording: recording.name)
def test_a_recorded_answer_is_read(recording):
    events = decode(recording.body)
    whole = recording.name != "ollama_midstream/v1_chat"
    assert isinstance(events[-1], ev.Finished if whole else ev.Failed)


def recorded(name):
    return collect(decode(recordings.read(name).body))


@every_row(
    ("name", "stop", "calls"),
    [
        ("llamacpp/chat_tool2_stream", "tool_use", [{"city": "Berlin", "unit": "c"}, {"city": "Rome", "unit": "f"}]),
        ("llamacpp/chat_thinktool_stream", "tool_use", [{"city": "Paris", "unit": "c"}]),
        ("vllm/chat_tool2_stream", "tool_use", [{"city": "Berlin"}, {"city": "Rome"}]),
        ("vllm/chat_named_stream", "tool_use", [{}]),
        ("vllm/chat_named", "tool_use", [{}]),
        ("ollama/v1_chat_tool_stream", "tool_use", [{"city": "Berlin", "unit": "c"}, {"city": "Rome", "unit": "f"}]),
        ("llamacpp/chat_length_stream", "length", []),
        ("llamacpp/chat_n2", "length", []),
        ("vllm/chat_stream", "end", []),
    ],
)  # fmt: skip
def test_a_recorded_answer_says_what_its_server_meant(name, stop, calls):
    found = recorded(name)
    assert found.stop == stop
    assert [call.arguments for call in found.calls] == calls


@pytest.mark.req("ZG-12")
@pytest.mark.parametrize(
    "name", ["llamacpp/chat_think_stream", "ollama/v1_chat_think_stream", "vllm/chat_think_stream"]
)
def test_three_names_for_a_thought_are_one(name):
    found = recorded(name)
    assert found.thinking.strip() == "I should answer briefly."
    assert found.text.strip()


def test_a_recorded_stop_sequence_is_told():
    found = recorded("vllm/chat_stop")
    assert (found.stop, found.stop_sequence) == ("stop_sequence", " tiny")


def test_cached_tokens_are_counted_apart():
    assert (
        recorded("llamacpp/chat_stream").usage.input_total
        == recorded("llamacpp/chat").usage.input_total
    )
    assert recorded("llamacpp/chat_n2").usage == Usage(input=1, output=2, cache_read=4)


@pytest.mark.req("CL-05")
def test_a_runner_that_dies_is_no_answer():
    failed = failure(recordings.read("ollama_midstream/v1_chat").body)
    assert failed.problem.kind == "truncated"
    assert failed.text.startswith("one two three")


# ── ends ──


@pytest.mark.req("CL-07")
@every_row(
    ("reason", "stop"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("tool_calls", "end"),
        ("function_call", "end"),
        ("content_filter", "refusal"),
        ("model_length", "length"),
        ("sensitive", "refusal"),
        ("eos", "end"),
    ],
)
def test_a_finish_reason_has_its_meaning(reason, stop):
    assert message(chunk({"content": "Hi"}), finish=reason).stop == stop


@pytest.mark.req("CL-07")
def test_a_call_decides_against_stop():
    assert message(calls(entry(0, "a", "f", "{}")), finish="stop").stop == "tool_use"


@every_row(
    ("reason", "kind"),
    [
        ("error", "rejected"),
        ("abort", "truncated"),
        ("network_error", "truncated"),
        ("insufficient_system_resource", "overloaded"),
    ],
)
def test_a_reason_that_is_a_failure_fails(reason, kind):
    failed = failure(chunk({"content": "Hi"}) + chunk({}, reason) + DONE)
    assert failed.problem.kind == kind
    assert failed.text == "Hi"


@pytest.mark.req("CL-05")
def test_without_a_finish_reason_the_end_is_a_cut():
    assert failure(chunk({"content": "Hi"})).problem.kind == "truncated"
    assert (
        failure(chunk({"content": "Hi"}) + b'data: {"choices":[{"del').problem.kind == "truncated"
    )


def test_after_a_finish_reason_done_may_be_missing():
    assert message(chunk({"content": "Hi"}, "stop"), finish="").stop == "end"


def test_done_alone_ends_an_answer_that_has_begun():
    assert message(chunk({"content": "Hi"}), DONE, finish="").stop == "end"
    assert failure(DONE).problem.kind == "truncated"


def test_an_empty_finish_reason_is_none():
    assert message(chunk({"content": "a"}, ""), chunk({"content": "b"})).text == "ab"
    assert failure(chunk({"content": "a"}, "")).problem.kind == "truncated"


def test_a_refusal_is_text_and_the_reason():
    found = message(chunk({"refusal": "No"}), chunk({"refusal": "."}))
    assert (found.text, found.stop) == ("No.", "refusal")


# ── errors ──


@every_row(
    ("data", "kind", "text"),
    [
        (frame({"error": {"message": "boom", "type": "server_error"}}), "rejected", "boom"),
        (frame({"error": "boom"}), "rejected", "boom"),
        (frame({"error": {"message": "boom", "code": 429}}), "rate_limited", "boom"),
        (frame({"error": {"message": "boom", "code": "overloaded"}}), "overloaded", "boom"),
        (frame({"choices": [{"index": 0, "delta": {}, "error": {"message": "boom"}}]}), "rejected", "boom"),
        (frame({"choices": [], "x_groq": {"error": "boom"}}), "rejected", "boom"),
        (b'event: error\ndata: {"message": "boom"}\n\n', "rejected", "boom"),
        (b'{"error": {"message": "boom", "code": 503}}', "overloaded", "boom"),
        (b'{"detail": "Not Found"}', "rejected", "Not Found"),
        (b"data: nonsense\n\n", "broken_wire", ""),
        (b'{"choices": [{', "broken_wire", ""),
    ],
)  # fmt: skip
def test_an_error_in_place_of_an_answer_fails(data, kind, text):
    failed = failure(data)
    assert failed.problem.kind == kind
    assert text in failed.problem.text


@pytest.mark.req("CL-05")
def test_an_error_in_the_middle_keeps_what_came_before():
    half = calls(entry(0, "a", "f", '{"p"'))
    failed = failure(chunk({"content": "Hi"}) + half + frame({"error": {"message": "boom"}}))
    assert failed.text == "Hi"
    assert failed.calls[0].raw == '{"p"'


# ── counts ──


@pytest.mark.req("ZG-23")
@pytest.mark.parametrize(
    "frames",
    [
        [frame({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 1}}})],
        [frame({"choices": [], "x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 1}}}})],
        [frame({"choices": [{"index": 0, "delta": {}, "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 3, "prompt_tokens_details": {"cache_write_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 1}}}]})],
    ],
)  # fmt: skip
def test_counts_are_found_wherever_a_server_puts_them(frames):
    found = message(chunk({"content": "Hi"}, "stop"), *frames)
    assert found.usage == Usage(input=4, output=4, cache_read=3, cache_write=2, reasoning=1)


def test_counts_are_never_negative():
    usage = {
        "prompt_tokens": 1,
        "completion_tokens": -1,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    assert message(chunk({"content": "Hi"}, "stop", usage=usage)).usage == Usage(cache_read=5)


# ── deltas ──


@pytest.mark.req("ZG-12")
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_a_thought_and_the_answer_may_share_a_chunk(field):
    found = message(chunk({field: "Hm"}), chunk({field: ".", "content": "Yes"}))
    name = "" if field == "reasoning_content" else field
    assert found.content == (Thinking("Hm.", field=name), Text("Yes"))


def test_a_thought_under_two_names_is_told_once():
    detail = {"type": "reasoning.text", "text": "Hm"}
    found = message(
        chunk({"reasoning": "Hm", "reasoning_content": "Hm", "reasoning_details": [detail]})
    )
    assert found.thinking == "Hm"


def test_details_alone_are_thoughts_with_their_seals():
    found = message(
        chunk({"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "zzz"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "So", "signature": "s"}]}),
    )
    assert found.content == (
        Thinking("Hm", (Opaque("openai_chat", "redacted", "zzz"),)),
        Thinking("So", (Opaque("openai_chat", "signature", "s"),)),
    )


def test_content_may_be_a_list_of_parts():
    found = message(
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}),
        chunk({"content": [{"type": "text", "text": "Yes"}, {"type": "new"}]}),
        chunk(
            {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]}
        ),
    )
    assert found.content == (
        Thinking("Hm"),
        Text("Yes"),
        Image(data="aGk=", media_type="image/png"),
    )


def test_pictures_of_an_answer_are_parts():
    url = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    found = message(chunk({"images": [url, {"type": "image_url"}]}))
    assert found.content == (Image(url="https://example.org/a.png"),)


def test_citations_belong_to_the_text():
    cited = {"type": "url_citation", "url_citation": {"url": "https://example.org"}}
    (text,) = message(chunk({"content": "Rome", "annotations": [cited]})).content
    assert text.citations == ({"type": "url_citation", "url": "https://example.org", "title": ""},)


def test_spans_of_citations_count_from_the_beginning_of_their_text():
    inner = {"url": "https://example.org", "title": "T", "start_index": 4, "end_index": 8}
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    cited = {"type": "url_citation", "url_citation": inner}
    found = message(
        chunk({"content": "One "}), chunk({"tool_calls": [call]}),
        chunk({"content": "Rome", "annotations": [cited]}),
    )  # fmt: skip
    (citation,) = found.content[-1].citations
    assert (citation["start_index"], citation["end_index"]) == (0, 4)


def test_citations_without_a_text_are_a_loss():
    cited = {"type": "url_citation", "url_citation": {"url": "https://example.org"}}
    found = message(chunk({"annotations": [cited]}), chunk({"annotations": [cited]}))
    assert [loss.what for loss in found.losses] == ["answer.citations"]


def test_the_first_of_several_answers_is_told():
    other = frame(
        {"choices": [{"index": 1, "delta": {"content": "No"}, "finish_reason": "length"}]}
    )
    found = message(chunk({"content": "Yes"}), other)
    assert (found.text, found.stop) == ("Yes", "end")


def test_the_answer_begins_with_a_chunk_that_has_choices():
    filtered = frame({"id": "", "model": "", "choices": [], "prompt_filter_results": []})
    first = decode(filtered + chunk({"content": "Hi"}, "stop") + DONE)[0]
    assert isinstance(first, ev.Started)
    assert (first.id, first.model) == ("chatcmpl-1", "m")


def test_keep_alives_and_unknown_fields_change_nothing():
    plain = chunk({"content": "Hi"}) + chunk({}, "stop") + DONE
    strange = b": OPENROUTER PROCESSING\n\n" + chunk({"content": "Hi", "new": 1}, obfuscation="x")
    assert decode(strange + chunk({}, "stop") + DONE) == decode(plain)


# ── whole bodies ──


def test_a_whole_body_is_a_stream_that_came_at_once():
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"p":1}'}}
    told = {"role": "assistant", "content": None, "reasoning": "Hm", "tool_calls": [call]}
    body = {"id": "chatcmpl-1", "model": "m", "choices": [{"message": told}]}
    found = collect(decode(b"\n " + json.dumps(body).encode()))
    assert found.thinking == "Hm"
    assert [(c.id, c.name, c.arguments) for c in found.calls] == [("a", "f", {"p": 1})]
    assert found.stop == "tool_use"


def test_nothing_is_said_after_the_end():
    decoder = StreamDecoder(Ids("seed"))
    body = chunk({"content": "Hi"}, "stop") + DONE
    said = decoder.feed(body)
    grammar.check(said)
    assert decoder.feed(body) + decoder.close() == []


def test_what_follows_done_in_the_same_piece_is_passed_over():
    body = chunk({"content": "Hi"}, "stop") + DONE + chunk({"content": "more"})
    assert collect(decode(body)).text == "Hi"


def test_a_frame_beyond_all_bounds_fails_with_what_came_before():
    decoder = StreamDecoder(Ids("seed"))
    said = decoder.feed(chunk({"content": "Hi"}))
    said += decoder.feed(b"data: " + b"x" * (9 * 1024 * 1024)) + decoder.close()
    grammar.check(said)
    assert said[-1].problem.kind == "broken_wire"
    assert collect(said).text == "Hi"


def test_a_thought_among_parts_may_be_a_text():
    assert message(chunk({"content": [{"type": "thinking", "thinking": "Hm"}]})).thinking == "Hm"


def test_a_whole_message_at_the_end_of_a_stream_is_not_told_twice():
    call = entry(None, "a", "f", "{}")
    whole = {"content": "Hi", "reasoning": "Hm", "tool_calls": [call]}
    end = frame({"choices": [{"index": 0, "message": whole, "finish_reason": "stop"}]})
    every = message(chunk({"reasoning": "Hm"}), chunk({"content": "Hi"}), calls(call), end)
    assert [type(part) for part in every.content] == [Thinking, Text, Call]
    only_text = message(chunk({"content": "Hi"}), end)
    assert (only_text.text, only_text.thinking, len(only_text.calls)) == ("Hi", "Hm", 1)
