import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import grammar
from tests.strategies import answers
from tests.tables import every_row

from toolbridge.codecs.openai_responses import CODEC
from toolbridge.codecs.openai_responses.decode_stream import StreamDecoder
from toolbridge.codecs.openai_responses.encode_stream import (
    StreamEncoder,
    encode_message,
)
from toolbridge.core.codec import AnswerContext
from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Opaque,
    OutputFormat,
    Problem,
    Request,
    Sampling,
    Text,
    Think,
    Thinking,
    Tool,
    ToolChoice,
)
from toolbridge.core.usage import Usage

ORIGIN = "openai_responses"
TOOLS = (
    Tool("look", schema={"type": "object"}),
    Tool("patch", freeform=True),
    Tool("agents__close", namespace="agents", schema={"type": "object"}),
)
ASKED = AnswerContext(Request("m", tools=TOOLS, stream=True, origin=ORIGIN), at=1_790_000_000.5)


class Story:
    """An answer that is told, and read again."""

    def __init__(self, asked=ASKED):
        self.draft = Draft(Ids("story"))
        self.encoder = StreamEncoder(asked)
        self.events = []
        self.data = b""
        self.tell(self.draft.start(id="msg_1", model="upstream"))

    def tell(self, events):
        self.events += events
        self.data += b"".join(piece for event in events for piece in self.encoder.feed(event))
        return self

    def finish(self, reason="end"):
        return self.tell(self.draft.finish(reason))

    @property
    def frames(self):
        return frames(self.data)

    @property
    def types(self):
        return [frame["type"].removeprefix("response.") for frame in self.frames]

    @property
    def last(self):
        return self.frames[-1]["response"]

    @property
    def back(self):
        return collect(grammar.run(StreamDecoder(Ids("back")), [self.data]))


def frames(data):
    found = []
    for block in data.decode().split("\n\n")[:-1]:
        name, line = block.split("\n", 1)
        frame = json.loads(line.removeprefix("data: "))
        assert name == f"event: {frame['type']}"
        found.append(frame)
    return found


def story(*events):
    told = Story()
    for write in events:
        told.tell(write(told.draft))
    return told.finish()


# ── grammar ──


@given(st.data())
def test_numbers_have_no_gap_and_one_id_goes_throughout(data):
    encoder = StreamEncoder(ASKED)
    written = b""
    for event in data.draw(answers(origin=ORIGIN)):
        written += encoder.keep_alive() if data.draw(st.booleans()) else b""
        written += b"".join(encoder.feed(event))
    found = frames(written)
    assert [frame["sequence_number"] for frame in found] == list(range(len(found)))
    assert len({frame["response"]["id"] for frame in found if "response" in frame}) == 1
    assert [frame["type"] for frame in found].count("response.created") == 1


@given(answers(origin=ORIGIN, server_tools=False))  # items of server tools are open together
def test_items_come_one_after_the_other(events):
    encoder = StreamEncoder(ASKED)
    current = None
    ended = 0
    for frame in frames(b"".join(piece for event in events for piece in encoder.feed(event))):
        if frame["type"].endswith("output_item.added"):
            assert current is None
            assert frame["output_index"] == ended
            current = frame["item"]["id"]
        elif frame["type"].endswith("output_item.done"):
            assert frame["item"]["id"] == current
            current, ended = None, ended + 1
        elif "item_id" in frame:
            assert (frame["item_id"], frame["output_index"]) == (current, ended)


@pytest.mark.req("CL-03")
def test_a_text_is_told_in_full_grammar():
    told = story(lambda draft: draft.text("He"), lambda draft: draft.text("llo"))
    assert told.types == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
        "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    (item,) = told.last["output"]
    assert item["content"] == [
        {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    ]
    assert told.frames[-2]["item"] == item


def test_a_call_is_told_in_full_grammar():
    told = story(
        lambda draft: draft.call("a", name="look", id="call_1"),
        lambda draft: draft.arguments("a", '{"a"'),
        lambda draft: draft.arguments("a", ":1}"),
    )
    assert told.types[2:-1] == [
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.delta",
        "function_call_arguments.done", "output_item.done",
    ]  # fmt: skip
    (item,) = told.last["output"]
    assert (item["call_id"], item["arguments"], item["status"]) == (
        "call_1",
        '{"a":1}',
        "completed",
    )
    assert told.frames[2]["item"] == item | {"arguments": "", "status": "in_progress"}


def test_a_call_without_arguments_has_an_empty_object():
    told = story(lambda draft: draft.call("a", name="look", id="call_1"))
    assert told.last["output"][0]["arguments"] == "{}"
    assert told.frames[3]["delta"] == "{}"


def test_a_thought_is_a_summary():
    told = story(lambda draft: draft.think("hm"))
    assert told.types[2:-1] == [
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta",
        "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
    ]  # fmt: skip
    (item,) = told.last["output"]
    assert item["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert "encrypted_content" not in item  # Mistral Vibe refuses a null


def sealed(draft, *tokens):
    return [event for token in tokens for event in draft.seal(token)]


def test_a_seal_of_this_api_goes_out_as_it_came():
    told = story(
        lambda draft: draft.think("hm"),
        lambda draft: sealed(
            draft, Opaque(ORIGIN, "encrypted", "s"), Opaque("gemini", "encrypted", "x")
        ),
    )
    assert told.last["output"][0]["encrypted_content"] == "s"


def test_a_hidden_thought_keeps_the_id_under_which_it_was_sealed():
    told = story(
        lambda draft: sealed(
            draft, Opaque(ORIGIN, "encrypted", "s"), Opaque(ORIGIN, "item", "rs_1")
        )
    )
    (item,) = told.last["output"]
    assert item == {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "s"}
    assert told.types[2:-1] == ["output_item.added", "output_item.done"]


def test_a_hidden_thought_of_another_api_is_not_told():
    told = story(lambda draft: draft.seal(Opaque("anthropic", "redacted", "x")))
    assert told.last["output"] == []


def test_citations_are_told_before_their_text_ends():
    cited = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2}
    told = Story()
    told.tell(told.draft.text("Hi"))
    told.draft.cite(cited)
    told.draft.cite({"type": "char_location"})
    told.finish()
    assert told.types[4:7] == [
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
    ]
    assert told.last["output"][0]["content"][0]["annotations"] == [cited]


def test_the_phase_of_a_message_stays():
    told = story(
        lambda draft: draft.text("Hi", "a"),
        lambda draft: draft.seal(
            Opaque(ORIGIN, "item", '{"id":"msg_9","phase":"commentary"}'), "a"
        ),
    )
    assert told.last["output"][0]["phase"] == "commentary"


def test_an_item_of_this_api_is_told_whole_and_others_are_not():
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    told = story(
        lambda draft: draft.add(Foreign("anthropic", "server_tool_use", {"type": "x"})),
        lambda draft: draft.add(Foreign(ORIGIN, "web_search_call", search)),
    )
    assert told.last["output"] == [search]


def test_a_picture_is_an_item_that_made_one():
    told = story(lambda draft: draft.add(Image(data="aGk=", media_type="image/webp")))
    (item,) = told.last["output"]
    wanted = {"type": "image_generation_call", "status": "completed", "result": "aGk="}
    assert item == {"id": item["id"], **wanted, "output_format": "webp"}
    assert told.back.content == (Image(data="aGk=", media_type="image/webp"),)
    assert json.loads(encode_message(collect(told.events), ASKED))["output"] == [item]


def test_a_picture_of_ours_comes_back_as_a_picture():
    told = story(lambda draft: draft.add(Image(data="aGk=", media_type="image/webp")))
    body = {"model": "m", "input": [{"role": "user", "content": "x"}, *told.last["output"]]}
    request = CODEC.decode_request(json.dumps(body).encode())
    assert request.turns[1].content == (Image(data="aGk=", media_type="image/webp"),)


# ── the client's own tools ──


def test_a_custom_tool_is_answered_by_a_custom_call():
    told = story(
        lambda draft: draft.call("a", name="patch", id="call_1"),
        lambda draft: draft.arguments("a", '{"input":"*** \\'),
        lambda draft: draft.arguments("a", '"Begin\\n"}'),
    )
    assert told.types[2:-1] == [
        "output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.delta",
        "custom_tool_call_input.done", "output_item.done",
    ]  # fmt: skip
    (item,) = told.last["output"]
    assert (item["type"], item["name"], item["input"]) == (
        "custom_tool_call",
        "patch",
        '*** "Begin\n',
    )
    assert told.back.calls[0].arguments == {"input": '*** "Begin\n'}


def test_half_a_text_is_never_ended_as_a_call():
    told = Story()
    told.tell(told.draft.call("a", name="patch", id="call_1"))
    told.tell(told.draft.arguments("a", '{"input":"*** Beg'))
    told.finish("length")
    assert "output_item.done" not in told.types
    assert "custom_tool_call_input.done" not in told.types
    (item,) = told.last["output"]
    assert (item["input"], item["status"]) == ("*** Beg", "incomplete")
    assert told.back.calls[0].raw == '{"input":"*** Beg'
    whole = json.loads(encode_message(collect(told.events), ASKED))
    assert whole["output"] == told.last["output"]


def test_text_that_was_not_wrapped_is_the_input():
    told = story(
        lambda draft: draft.call("a", name="patch", id="call_1"),
        lambda draft: draft.arguments("a", "*** Begin"),
    )
    assert told.last["output"][0]["input"] == "*** Begin"


def test_a_tool_of_a_namespace_is_called_by_both_names():
    told = story(lambda draft: draft.call("a", name="agents__close", id="call_1"))
    (item,) = told.last["output"]
    assert (item["name"], item["namespace"]) == ("close", "agents")
    assert told.frames[2]["item"]["namespace"] == "agents"
    assert told.back.calls[0].name == "agents__close"


def test_broken_arguments_are_told_as_they_are_and_are_not_complete():
    told = Story()
    told.tell(told.draft.call("a", name="look", id="call_1"))
    told.tell(told.draft.arguments("a", '{"a":'))
    told.finish("length")
    (item,) = told.last["output"]
    assert (item["arguments"], item["status"]) == ('{"a":', "incomplete")


# ── the response object ──


def test_an_answer_repeats_what_was_asked():
    asked = Request(
        "m",
        system=(Text("Be brief."),),
        tools=TOOLS,
        tool_choice=ToolChoice("required", parallel=False),
        max_tokens=99,
        sampling=Sampling(temperature=0.5),
        think=Think("auto", effort="low", show="summarized"),
        output=OutputFormat(),
        user="someone",
        session="s1",
        origin=ORIGIN,
        extra={"metadata": {"a": "b"}, "text": {"verbosity": "low"}},
    )
    told = Story(AnswerContext(asked, at=7.9))
    response = told.frames[0]["response"]
    assert response["instructions"] == "Be brief."
    assert [tool["type"] for tool in response["tools"]] == ["function", "custom", "namespace"]
    assert response["tool_choice"] == "required"
    assert response["parallel_tool_calls"] is False
    assert response["max_output_tokens"] == 99
    assert (response["temperature"], response["top_p"]) == (0.5, 1.0)
    assert response["reasoning"] == {"effort": "low", "summary": "auto"}
    assert response["text"] == {"verbosity": "low", "format": {"type": "json_object"}}
    assert response["metadata"] == {"a": "b"}
    assert response["created_at"] == 7
    assert response["model"] == "m"
    assert (response["status"], response["output"], response["usage"]) == ("in_progress", [], None)


def test_the_counts_are_those_of_the_upstream_or_our_estimate():
    told = Story()
    told.tell(told.draft.usage(Usage(10, 9, 60, 30, 10, 4))).finish()
    assert told.last["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {
            "cached_tokens": 60, "cache_write_tokens": 30,
            "cache_write_tokens_details": {"ttl_30m_tokens": 20, "ttl_12h_tokens": 10},
        },
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 109,
    }  # fmt: skip
    assert Story(AnswerContext(estimate=12)).finish().last["usage"]["input_tokens"] == 12


@every_row(
    ("stop", "status", "reason"),
    [
        ("end", "completed", None),
        ("stop_sequence", "completed", None),
        ("pause", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("context_overflow", "incomplete", "max_output_tokens"),
        ("refusal", "incomplete", "content_filter"),
    ],
)
def test_the_end_says_how_it_ended(stop, status, reason):
    told = Story().finish(stop)
    assert told.types[-1] == status
    assert told.last["status"] == status
    assert (told.last["incomplete_details"] or {}).get("reason") == reason


def test_a_whole_answer_is_the_last_event_of_its_stream():
    told = story(
        lambda draft: draft.think("hm"),
        lambda draft: draft.text("Hi"),
        lambda draft: draft.call("a", name="patch", id="call_1"),
        lambda draft: draft.arguments("a", '{"input":"x"}'),
        lambda draft: draft.call("b", name="look", id="call_2"),
    )
    assert json.loads(encode_message(collect(told.events), ASKED)) == told.last


# ── failure and silence ──


@pytest.mark.req("CL-05")
@every_row(
    ("kind", "code"),
    [
        ("overloaded", "server_is_overloaded"),
        ("rate_limited", "rate_limit_exceeded"),
        ("context_overflow", "context_length_exceeded"),
        ("truncated", "server_error"),
    ],
)
def test_a_failure_repeats_the_id_and_closes_nothing(kind, code):
    told = Story()
    told.tell(told.draft.text("Hi") + told.draft.end())
    told.tell(told.draft.call("a", name="look", id="call_1") + told.draft.arguments("a", "{"))
    told.tell(told.draft.fail(Problem(kind, "sorry")))
    assert told.types[-1] == "failed"
    assert told.last["id"] == told.frames[0]["response"]["id"]
    assert told.last["error"] == {"code": code, "message": "sorry"}
    assert [item["type"] for item in told.last["output"]] == ["message"]
    assert told.types.count("output_item.done") == 1
    whole = json.loads(encode_message(collect(told.events), ASKED))
    assert (whole["status"], whole["error"]) == ("failed", told.last["error"])


def test_silence_is_filled_with_a_real_event():
    told = Story()
    told.data += told.encoder.keep_alive()
    told.finish()
    assert told.types == ["created", "in_progress", "in_progress", "completed"]


def test_a_keep_alive_may_begin_the_answer():
    encoder = StreamEncoder(ASKED)
    assert encoder.id == ""
    data = encoder.keep_alive()
    draft = Draft(Ids("late"))
    for event in draft.start(id="msg_9", model="m") + draft.text("Hi") + draft.finish("end"):
        data += b"".join(encoder.feed(event))
    found = frames(data)
    assert [frame["type"] for frame in found].count("response.created") == 1
    assert found[-1]["response"]["id"] == found[0]["response"]["id"] == encoder.id
    assert encoder.keep_alive() == b""


def test_a_key_is_a_bearer():
    assert CODEC.authorize("k") == {"authorization": "Bearer k"}
    assert CODEC.authorize("") == {}


def test_what_a_client_gets_it_may_send_back():
    """Every part survives the way through a client of this API, but for what it cannot carry."""
    message = collect(
        story(
            lambda draft: draft.think("hm"),
            lambda draft: draft.seal(Opaque(ORIGIN, "encrypted", "s")),
            lambda draft: draft.text("Hi"),
            lambda draft: draft.call("a", name="agents__close", id="call_1"),
            lambda draft: draft.call("b", name="patch", id="call_2"),
            lambda draft: draft.arguments("b", '{"input":"x"}'),
        ).events
    )
    output = json.loads(encode_message(message, ASKED))["output"]
    body = json.dumps({"model": "m", "input": output}).encode()
    (turn,) = CODEC.decode_request(body).turns
    thought, said, close, patch = turn.content
    assert thought == Thinking("hm", (Opaque(ORIGIN, "encrypted", "s"),))
    assert said.text == "Hi"
    assert (close.name, close.id) == ("agents__close", "call_1")
    assert (patch.name, patch.arguments) == ("patch", {"input": "x"})
    assert isinstance(close, Call)


@given(st.lists(st.sampled_from(["hm", "so", " "]), max_size=3), st.booleans())
def test_sealed_thoughts_come_back_with_their_seals(pieces, seal):
    def think(draft):
        events = [event for piece in pieces for event in draft.think(piece)]
        tokens = [Opaque(ORIGIN, "encrypted", "s")] if seal else []
        return events + sealed(draft, *tokens) + (draft.end() if events or seal else [])

    told = story(think, lambda draft: draft.text("Hi"))
    thoughts = [part for part in told.back.content if isinstance(part, Thinking)]
    wanted = Thinking("".join(pieces), (Opaque(ORIGIN, "encrypted", "s"),) if seal else ())
    assert thoughts == ([wanted] if wanted != Thinking("") else [])


def test_the_parts_of_a_whole_answer_that_only_another_api_understands_are_left_out():
    told = story(
        lambda draft: draft.add(Foreign("anthropic", "server_tool_use", {"type": "x"})),
        lambda draft: draft.seal(Opaque("anthropic", "redacted", "x")),
        lambda draft: sealed(draft, Opaque(ORIGIN, "encrypted", "s")),
        lambda draft: draft.add(Foreign(ORIGIN, "web_search_call", {"type": "web_search_call"})),
    )
    assert json.loads(encode_message(collect(told.events), ASKED))["output"] == told.last["output"]


def test_a_failure_says_what_was_used():
    told = Story()
    told.tell(told.draft.usage(Usage(3, 4))).tell(told.draft.fail(Problem("truncated", "cut")))
    assert told.last["usage"]["total_tokens"] == 7
