"""The laws of streams, over every codec."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.examples import examples
from tests.properties import grammar
from tests.properties.frames import (
    STRANGE,
    framed,
    mutations,
    swapped,
    unframed,
    with_strangers,
)
from tests.properties.grammar import joined, run
from tests.properties.losses import losses_of
from tests.properties.subjects import (
    ASKED,
    CODECS,
    EXAMPLES,
    decoded,
    encoded,
    every_codec,
    every_input,
    fed,
    inputs_of,
    single_bytes,
)
from tests.strategies import MODEL, answers, cuts

from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words
from toolbridge.core.answer_sources import sources_text
from toolbridge.core.draft import Draft
from toolbridge.core.fold import OWN_ENDS, collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Loss, Message, Text


def is_complete(data):
    """Whether `data` is the whole data of an event."""
    try:
        json.loads(data)
    except ValueError:
        return data == b"[DONE]"
    return True


lawful = settings(max_examples=examples(EXAMPLES))


def answers_of(codec, **choices):
    return answers(origin=codec.name, **choices)


# ── chunking ─────────────────────────────────────────────────────────────────


@every_codec
@lawful
@given(data=st.data())
def test_any_cut_gives_the_same_events(codec, data):
    written = encoded(codec, data.draw(answers_of(codec)))
    whole = joined(decoded(codec, [written]))
    assert joined(decoded(codec, data.draw(cuts(written)))) == whole
    assert joined(decoded(codec, single_bytes(written))) == whole


@every_input
def test_any_cut_of_a_transcript_gives_the_same_events(codec, data):
    whole = joined(decoded(codec, [data]))
    assert joined(decoded(codec, single_bytes(data))) == whole
    for at in range(0, len(data), max(1, len(data) // 50)):
        assert joined(decoded(codec, [data[:at], data[at:]])) == whole


# ── grammar ──────────────────────────────────────────────────────────────────


@every_codec
@lawful
@given(data=st.data())
def test_what_is_read_is_a_legal_answer(codec, data):
    grammar.check(decoded(codec, [encoded(codec, data.draw(answers_of(codec)))]))


@every_input
def test_a_transcript_is_read_as_a_legal_answer(codec, data):
    grammar.check(decoded(codec, [data]))


@every_codec
@lawful
@given(data=st.data())
def test_mutated_bytes_never_break_the_grammar(codec, data):
    written = encoded(codec, data.draw(answers_of(codec)))
    grammar.check(decoded(codec, [data.draw(mutations(written))]))


@every_codec
@lawful
@given(data=st.data())
def test_mutated_transcripts_never_break_the_grammar(codec, data):
    inputs = inputs_of(codec)
    if not inputs:
        pytest.skip(f"{codec.name} has no transcripts yet")
    told = data.draw(st.sampled_from(inputs))
    grammar.check(decoded(codec, [data.draw(mutations(told))]))


@every_codec
@lawful
@given(data=st.data())
def test_swapped_values_never_break_the_grammar(codec, data):
    """Frames stay JSON, but any value in them may be of any kind."""
    frames = framed(codec, encoded(codec, data.draw(answers_of(codec))))
    at = data.draw(st.integers(0, len(frames) - 1))
    frames[at] = (data.draw(swapped(frames[at][0])), frames[at][1])
    grammar.check(decoded(codec, [unframed(codec, frames)]))


@every_codec
@lawful
@given(data=st.data())
def test_a_cut_answer_is_never_a_good_end(codec, data):
    """Only its last frame ends an answer well, and only a whole frame counts."""
    written = encoded(codec, data.draw(answers_of(codec, failed=False)))
    at = data.draw(st.integers(0, len(written) - 1))
    events = decoded(codec, [written[:at]])
    grammar.check(events)
    if not isinstance(events[-1], ev.Failed):
        # All that may be missing is an ornament, such as the last line end.
        assert joined(events) == joined(decoded(codec, [written]))


@every_codec
@lawful
@given(data=st.data())
def test_half_an_event_is_never_a_good_end(codec, data):
    """Also after the stop reason: usage and the mark of the end may be all that is missing."""
    written = encoded(codec, data.draw(answers_of(codec, failed=False)))
    cut = written[: -data.draw(st.integers(1, min(len(written) - 1, 150)))]
    frame_end = b"\n\n" if "event-stream" in codec.content_type else b"\n"
    rest = cut.rpartition(frame_end)[2]
    if rest.strip() and not is_complete(rest.rpartition(b"data: ")[2].strip()):
        assert isinstance(decoded(codec, [cut])[-1], ev.Failed)
        assert isinstance(decoded(codec, single_bytes(cut))[-1], ev.Failed)


@every_input
def test_a_cut_transcript_keeps_the_grammar(codec, data):
    for at in range(0, len(data), max(1, len(data) // 60)):
        grammar.check(decoded(codec, [data[:at]]))


@every_codec
def test_nothing_at_all_is_a_failure(codec):
    for pieces in ([], [b""], [b"\n"]):
        events = decoded(codec, pieces)
        grammar.check(events)
        assert isinstance(events[-1], ev.Failed)


@every_codec
@pytest.mark.parametrize("data", [b"<html>Bad gateway</html>", b"\xff\xfe", b"[]", b"null", b"{}"])
def test_what_is_no_answer_is_a_failure(codec, data):
    events = decoded(codec, [data])
    grammar.check(events)
    assert isinstance(events[-1], ev.Failed)


@every_codec
def test_after_the_end_a_decoder_is_silent(codec):
    written = encoded(codec, spoken_answer())
    decoder = codec.stream_decoder(Ids("law"))
    said = decoder.feed(written) + decoder.close()
    assert isinstance(said[-1], ev.Finished)
    assert decoder.feed(written) + decoder.close() == []


def spoken_answer(*pieces):
    draft = Draft(Ids("spoken"))
    events = draft.start(id="msg_1", model=MODEL)
    for piece in pieces or ("Hi",):
        events += draft.text(piece)
    return events + draft.finish("end")


@every_codec
def test_a_frame_beyond_all_bounds_fails_but_keeps_what_came_before(codec):
    written = encoded(codec, spoken_answer("Hello", "world"))
    head = written[: written.index(b"world")]
    head = head[: head.rindex(b"\n") + 1] if b"\n" in head else b""
    line_start = b"data: " if "event-stream" in codec.content_type else b""
    long = head + line_start + b"x" * (9 * 1024 * 1024)
    for pieces in ([long], [head, long[len(head) :]]):
        events = decoded(codec, pieces)
        grammar.check(events)
        assert isinstance(events[-1], ev.Failed)
        assert events[-1].problem.kind == "broken_wire"
        assert collect(events).text == "Hello"


# ── growth ───────────────────────────────────────────────────────────────────


@every_codec
@lawful
@given(data=st.data())
def test_nothing_is_taken_back(codec, data):
    written = encoded(codec, data.draw(answers_of(codec)))
    whole = decoded(codec, [written])
    at = data.draw(st.integers(0, len(written)))
    assert grammar.is_beginning(fed(codec, [written[:at]]), whole)


@every_input
def test_nothing_of_a_transcript_is_taken_back(codec, data):
    whole = decoded(codec, [data])
    for at in range(0, len(data), max(1, len(data) // 50)):
        assert grammar.is_beginning(fed(codec, [data[:at]]), whole)


# ── round trip ───────────────────────────────────────────────────────────────


@every_codec
@lawful
@given(data=st.data())
def test_an_answer_comes_back_as_it_went_out(codec, data):
    losses = losses_of(codec.name)
    events = data.draw(answers_of(codec, failed=False, broken=False, parts=losses.images_out))
    back = collect(decoded(codec, [encoded(codec, events)]))
    assert losses.message(back) == losses.message(without_losses(collect(events)))


def without_losses(message):
    """What was lost before is reported beside the answer, and is no part of what it says."""
    return replace(message, losses=())


@every_codec
@lawful
@given(data=st.data())
def test_a_broken_call_never_comes_back_as_a_whole_one(codec, data):
    events = data.draw(answers_of(codec, failed=False, broken=True, parts=False))
    back = {call.id: call for call in collect(decoded(codec, [encoded(codec, events)])).calls}
    for call in collect(events).calls:
        if call.raw and call.id in back:
            assert back[call.id].raw == call.raw or back[call.id].arguments == {"raw": call.raw}


@every_input
def test_a_transcript_ends_in_every_api_as_it_ended_in_its_own(codec, data):
    events = decoded(codec, [data])
    for param in CODECS:
        other = param.values[0]
        back = decoded(other, [encoded(other, events)])
        grammar.check(back)
        assert type(back[-1]) is type(events[-1])
        shown = [call.name for call in ended(events) if not left_out(other, events, call)]
        assert [call.name for call in ended(back)] == shown
        assert collect(back).text == told_text(collect(events), other)


def told_text(message, codec):
    """The text of an answer, with what stands for other parts, and why it was refused."""
    text = Message(content=in_words(message.content, codec.shows)).text
    if codec.name == "ollama":
        text += sources_text(replace(message, content=in_words(message.content, codec.shows)))
    refused = message.stop_details.explanation if message.stop_details else ""
    return text + refused if codec.name in {"openai_chat", "openai_responses"} else text


def ended(events):
    """The calls that somebody may run, in their order: those that came to their end."""
    ends = [event for event in events if isinstance(event, ev.CallEnd)]
    return [event.call for event in sorted(ends, key=lambda event: event.index)]


def left_out(codec, events, call):
    """Whether `call` was cut by the end of the answer, and calls of this API are atomic."""
    interrupted = isinstance(events[-1], ev.Finished) and events[-1].reason not in OWN_ENDS
    return codec.name in {"gemini", "ollama"} and interrupted and bool(call.raw)


# ── agreement ────────────────────────────────────────────────────────────────


@every_codec
@lawful
@given(data=st.data())
def test_a_whole_body_says_what_the_stream_says(codec, data):
    events = data.draw(answers_of(codec, failed=False, broken=False))
    body = codec.encode_message(collect(events), ASKED)
    from_body = decoded(codec, [body])
    grammar.check(from_body)
    from_stream = collect(decoded(codec, [encoded(codec, events)]))
    settle = losses_of(codec.name).message
    assert settle(collect(from_body)) == settle(from_stream)
    assert joined(decoded(codec, single_bytes(body))) == joined(from_body)


# ── stranger ─────────────────────────────────────────────────────────────────


@every_codec
@lawful
@given(data=st.data())
def test_unknown_fields_change_nothing(codec, data):
    written = encoded(codec, data.draw(answers_of(codec)))
    strange = [(with_strangers(value), event) for value, event in framed(codec, written)]
    assert joined(decoded(codec, [unframed(codec, strange)])) == joined(decoded(codec, [written]))


@every_codec
@lawful
@given(data=st.data())
def test_unknown_events_change_nothing(codec, data):
    written = encoded(codec, data.draw(answers_of(codec)))
    frames = framed(codec, written)
    for _ in range(data.draw(st.integers(1, 3))):
        stranger = ({"type": "brand_new", **STRANGE}, "brand_new" if frames[0][1] else "")
        frames.insert(data.draw(st.integers(1, len(frames))), stranger)
    assert joined(decoded(codec, [unframed(codec, frames)])) == joined(decoded(codec, [written]))


@every_codec
def test_keep_alives_change_nothing(codec):
    encoder = codec.stream_encoder(ASKED)
    events = spoken_answer("Hel", "lo")
    written = b""
    for event in events:
        written += b"".join(encoder.feed(event))
        if not isinstance(event, ev.Finished):
            written += encoder.keep_alive()
    written += b"".join(encoder.close())
    assert collect(decoded(codec, [written])) == collect(decoded(codec, [encoded(codec, events)]))


# ── failure ──────────────────────────────────────────────────────────────────


@every_codec
@pytest.mark.req("CL-05", "CB-22")
@lawful
@given(data=st.data())
def test_a_failure_is_read_as_a_failure(codec, data):
    events = data.draw(answers_of(codec, failed=True))
    back = decoded(codec, [encoded(codec, events)])
    grammar.check(back)
    assert isinstance(back[-1], ev.Failed)


@every_codec
@lawful
@given(data=st.data())
def test_an_answer_without_its_end_is_read_as_a_failure(codec, data):
    events = data.draw(answers_of(codec, failed=False))[:-1]
    encoder = codec.stream_encoder(ASKED)
    written = b"".join(run(encoder, events))
    assert isinstance(decoded(codec, [written])[-1], ev.Failed)


@every_codec
def test_an_encoder_is_silent_after_the_end(codec):
    encoder = codec.stream_encoder(ASKED)
    for event in spoken_answer():
        encoder.feed(event)
    assert encoder.close() == []


# ── what is written ──────────────────────────────────────────────────────────


@every_codec
@lawful
@given(data=st.data())
def test_every_frame_is_json(codec, data):
    for value, _ in framed(codec, encoded(codec, data.draw(answers_of(codec)))):
        assert isinstance(value, dict) or value == b"[DONE]"


@every_codec
def test_deltas_are_written_as_they_come(codec):
    """The first words reach the client before the last are known."""
    encoder = codec.stream_encoder(ASKED)
    written = b""
    for event in spoken_answer("Hello", "world")[:3]:
        written += b"".join(encoder.feed(event))
    assert collect(fed(codec, [written])).content == (Text("Hello"),)


def test_the_laws_can_fail():
    events = spoken_answer()
    lost = ev.Lost(Loss("answer.audio", "why"))
    for illegal in (
        [*events, events[-1]],
        events[:-1],
        events[1:],
        [events[0], ev.TextDelta(0, "x"), events[-1]],
        [events[0], ev.TextStart(0), events[-1]],
        [*events[:-1], lost, lost, events[-1]],
    ):
        with pytest.raises(AssertionError):
            grammar.check(illegal)
    assert not grammar.is_beginning(events[1:], events)
