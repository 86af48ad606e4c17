import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.frames import Speaker

from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.json import dumps
from toolbridge.core.messages import Problem
from toolbridge.core.usage import Usage
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.decode_answer import AnswerDecoder, SentPrompt
from toolbridge.node.protocol.encryption import Decryptor, Secret
from toolbridge.node.protocol.messages import decode_message

KEY = Secret.from_hex("ab" * 32)


class Reading:
    """A decoder, and everything that it said."""

    def __init__(self, *messages, close=True, opener=None, **sent):
        self.decoder = AnswerDecoder(opener or Decryptor(KEY), SentPrompt("p-1", model="m", **sent))
        self.events: list[ev.Event] = []
        for message in messages:
            self.feed(message)
        if close:
            self.events += self.decoder.close()

    def feed(self, message):
        said = self.decoder.feed(decode_message(dumps(message)))
        self.events += said
        return said

    @property
    def message(self):
        return collect(self.events)

    @property
    def problem(self):
        last = self.events[-1]
        assert isinstance(last, ev.Failed)
        return last.problem


@pytest.fixture
def node():
    return Speaker(KEY, "p-1")


def test_an_answer_is_text_counts_and_an_end(node):
    reading = Reading(*node.answer("Hel", "lo", " 😀"), close=False)
    assert [type(e).__name__ for e in reading.events] == [
        "Started", "TextStart", "TextDelta", "TextDelta", "TextDelta", "UsageReported", "TextEnd",
        "Finished",
    ]  # fmt: skip
    assert reading.message.text == "Hello 😀"
    assert reading.message.stop == "end"
    assert reading.decoder.over


@pytest.mark.req("CB-36")
def test_the_nodes_counts_are_the_usage(node):
    reading = Reading(*node.answer("a", "b", prompt=40))
    assert reading.message.usage == Usage(input=40, output=2)


@pytest.mark.req("CB-36")
def test_without_usage_the_tokens_are_counted_and_the_prompt_is_left_to_the_estimate(node):
    chunks = [node.chunk("a"), node.chunk("b"), node.chunk("", final=True)]
    reading = Reading(*chunks, node.response(), node.end(used=2))
    assert reading.message.usage == Usage(input=0, output=2)


def test_tokens_for_pictures_are_reported(node):
    *text, end = node.answer("a")
    reading = Reading(*text, end | {"vlm_tokens": 1234}, images=1)
    assert reading.decoder.vlm_tokens == 1234
    assert reading.message.usage.output == 1


@pytest.mark.parametrize(("said", "reason"), [("stop", "end"), ("length", "length")])
def test_the_reason_is_the_nodes(node, said, reason):
    assert Reading(*node.answer("a", finish=said)).message.stop == reason


def test_the_first_chunk_may_be_empty(node):
    reading = Reading(*node.answer("", "a"))
    assert reading.message.text == "a"


def test_a_character_may_be_cut_between_two_chunks(node):
    halves = [node.chunk(bytes([byte])) for byte in "é".encode()]
    reading = Reading(*halves, node.chunk("", final=True), node.response(), node.end(used=2))
    assert reading.message.text == "é"


class TestOldNodes:
    @pytest.mark.parametrize("responds", [True, False])
    def test_an_answer_without_an_end_is_whole_when_its_last_piece_came(self, node, responds):
        pieces = [node.chunk("a"), node.chunk("", final=True)]
        reading = Reading(
            *pieces, *([node.response()] if responds else []), close=False, old_nodes=not responds
        )
        assert reading.decoder.closing
        assert not reading.decoder.ended
        reading.events += reading.decoder.close()
        assert reading.decoder.over
        assert reading.message.stop == "end"
        assert reading.message.text == "a"

    def test_a_full_answer_without_a_reason_was_cut_by_its_limit(self, node):
        pieces = [node.chunk("a"), node.chunk("b"), node.chunk("", final=True)]
        reading = Reading(*pieces, node.response(), max_tokens=2)
        assert reading.message.stop == "length"


class TestStops:
    @pytest.mark.parametrize("texts", [["one END two"], ["one ", "E", "N", "D", " two"]])
    def test_text_is_cut_at_a_stop_sequence(self, node, texts):
        reading = Reading(*(node.chunk(text) for text in texts), close=False, stops=("END",))
        assert reading.decoder.enough
        cancelled = node.end("cancelled", used=9, finish_reason="cancelled")
        reading.feed(cancelled)
        assert reading.message.text == "one "
        assert (reading.message.stop, reading.message.stop_sequence) == ("stop_sequence", "END")
        assert reading.message.usage.output == 9

    def test_a_cut_answer_ends_well_even_if_the_node_does_not_answer(self, node):
        reading = Reading(node.chunk("aEND"), stops=("END",))
        assert reading.message.stop == "stop_sequence"

    def test_what_might_have_become_a_stop_is_told_at_the_end(self, node):
        assert Reading(*node.answer("a", "EN"), stops=("END",)).message.text == "aEN"

    def test_text_beyond_the_limit_is_cut(self, node):
        reading = Reading(*map(node.chunk, "abc"), close=False, max_tokens=2)
        assert reading.decoder.enough
        reading.feed(node.end("cancelled", used=3))
        assert reading.message.text == "ab"
        assert reading.message.stop == "length"

    def test_a_node_that_keeps_to_the_limit_is_not_cancelled(self, node):
        reading = Reading(*map(node.chunk, "ab"), close=False, max_tokens=2)
        assert not reading.decoder.enough

    def test_what_comes_after_the_cut_is_passed_over(self, node):
        reading = Reading(node.chunk("a."), close=False, stops=(".",))
        assert reading.feed(node.chunk("b")) == []
        assert reading.feed(node.chunk("", final=True)) == []
        assert reading.feed(node.response()) == []
        reading.feed(node.end("complete", used=2))
        assert reading.message.text == "a"


class TestFailures:
    def test_an_answer_that_breaks_off_is_truncated(self, node):
        reading = Reading(node.chunk("a"))
        assert reading.problem.kind == "truncated"
        assert reading.message.text == "a"

    def test_an_end_before_the_last_piece_is_truncated(self, node):
        reading = Reading(node.chunk("a"), node.end(used=1))
        assert reading.problem.kind == "truncated"

    def test_nothing_and_no_counts_is_an_error(self, node):
        pieces = [node.chunk("", final=True), node.response(), node.end(used=0)]
        assert "too long" in Reading(*pieces).problem.text
        assert Reading(*pieces, close=False).problem.kind == "rejected"

    def test_nothing_from_an_old_node_is_an_error(self, node):
        assert "too long" in Reading(node.chunk("", final=True), node.response()).problem.text

    def test_an_empty_answer_that_was_counted_is_an_answer(self, node):
        assert Reading(*node.answer()).message.stop == "end"

    def test_an_engine_that_failed_is_not_what_the_model_said(self, node):
        pieces = [node.chunk("a"), node.chunk("Error: out of memory"), node.chunk("", final=True)]
        reading = Reading(*pieces, node.response("error"), node.end("error"))
        assert reading.problem.kind == "rejected"
        assert reading.problem.text == "the node's engine failed: out of memory"
        assert reading.message.text == "a"
        assert reading.decoder.over

    def test_an_end_with_an_error_is_one(self, node):
        reading = Reading(node.chunk("a"), node.end("error"))
        assert reading.problem.text == "the node's engine failed"

    def test_a_model_may_say_error(self, node):
        reading = Reading(*node.answer("Error: ", "404", " is", " a status"))
        assert reading.message.text == "Error: 404 is a status"
        assert reading.message.stop == "end"

    def test_a_long_text_after_error_is_not_held_to_the_end(self, node):
        reading = Reading(node.chunk("Error: "), *map(node.chunk, "abcdefgh"), close=False)
        assert reading.message.text == "Error: abcdefgh"

    @pytest.mark.parametrize("aad", [encryption.IMAGE_AAD, encryption.VIDEO_AAD])
    def test_a_picture_instead_of_an_answer_is_an_error(self, node, aad):
        reading = Reading(node.response('{"type":"image_generation_result"}', aad), close=False)
        assert reading.problem.kind == "unsupported"
        assert "image" in reading.problem.text
        assert reading.decoder.over

    @pytest.mark.parametrize("id", [{"id": "p-1"}, {}])
    @pytest.mark.parametrize(
        ("fault", "over"),
        [
            ({"code": "DECRYPTION_FAILED", "message": "no"}, True),
            ({"error": "engine"}, False),
            ({"code": "TOKEN_LIMIT_EXCEEDED", "message": "long"}, False),
        ],
    )
    def test_both_shapes_of_an_error_end_the_answer(self, node, id, fault, over):
        reading = Reading({"type": "error"} | fault | id, close=False)
        assert reading.decoder.ended
        assert reading.decoder.over == over
        assert not reading.decoder.enough  # nothing is being written that could be stopped
        reading.feed(node.end("error"))
        assert reading.decoder.over

    def test_a_cancelled_answer_is_aborted(self, node):
        reading = Reading(node.chunk("a"), node.end("cancelled", finish_reason="cancelled"))
        assert reading.problem.kind == "aborted"


@pytest.mark.req("CB-20")
class TestTampering:
    def fails(self, *messages, **more):
        reading = Reading(*messages, close=False, **more)
        assert reading.problem.kind == "broken_wire"
        assert reading.decoder.enough
        return reading

    def test_a_flipped_bit_ends_the_answer(self, node):
        chunk = node.chunk("b")
        text = chunk["payload"]["ciphertextHex"]
        flipped = f"{int(text[0], 16) ^ 1:x}{text[1:]}"
        wrong = chunk | {"payload": chunk["payload"] | {"ciphertextHex": flipped}}
        assert self.fails(wrong).message.text == ""

    def test_a_missing_chunk_is_noticed(self, node):
        first, _, third = map(node.chunk, "abc")
        assert self.fails(first, third).message.text == "a"

    def test_chunks_in_another_order_are_noticed(self, node):
        first, second = map(node.chunk, "ab")
        self.fails(second, first)

    def test_a_chunk_that_comes_twice_is_noticed(self, node):
        first = node.chunk("a")
        self.fails(first, first)

    def test_a_moved_chunk_with_a_new_label_is_noticed(self, node):
        first, second = map(node.chunk, "ab")
        relabelled = first["payload"] | {"aadHex": second["payload"]["aadHex"], "index": 1}
        self.fails(first, second | {"payload": relabelled})

    def test_an_index_that_is_not_that_of_the_seal_is_noticed(self, node):
        chunk = node.chunk("a")
        self.fails(chunk | {"payload": chunk["payload"] | {"index": 4}})

    def test_a_chunk_of_an_earlier_answer_under_the_same_key_is_noticed(self, node):
        opener = Decryptor(KEY)
        before = node.answer("a")
        Reading(*before, opener=opener)
        self.fails(before[0], opener=opener)

    def test_a_chunk_under_another_key_is_noticed(self):
        self.fails(Speaker(Secret(bytes(32)), "p-1").chunk("a"))

    def test_a_chunk_after_the_last_one_is_noticed(self, node):
        self.fails(node.chunk("a"), node.chunk("", final=True), node.chunk("b"))

    def test_a_response_in_place_of_a_chunk_is_noticed(self, node):
        chunk = node.chunk("a")
        self.fails(node.response() | {"payload": chunk["payload"]})

    def test_a_forged_end_of_text_is_noticed(self, node):
        response = node.response()
        wrong = response["payload"] | {"nonceHex": "00" * 24}
        self.fails(node.chunk("a"), response | {"payload": wrong})


class TestOthers:
    def test_what_belongs_to_another_prompt_is_passed_over(self, node):
        other = Speaker(KEY, "p-0")
        stale = [other.chunk("x"), other.response("error"), other.end("error")]
        fault = {"type": "error", "error": "stale", "id": "p-0"}
        reading = Reading(*stale, fault, *node.answer("a"))
        assert reading.message.text == "a"
        assert reading.message.stop == "end"

    def test_an_end_without_a_name_ends_nothing(self, node):
        nameless = {"type": "stream_end", "reason": "error"}
        assert Reading(nameless, *node.answer("a")).message.stop == "end"

    def test_messages_of_other_types_change_nothing(self, node):
        others = [{"type": "connected"}, {"type": "session_init_ack"}, {"type": "novelty", "x": 1}]
        assert Reading(*others, *node.answer("a")).message.text == "a"

    def test_nothing_is_said_after_the_end(self, node):
        reading = Reading(*node.answer("a"))
        assert reading.feed(node.chunk("b")) == []
        assert reading.decoder.close() == []
        assert reading.decoder.fail(Problem("timed_out", "late")) == []


@given(st.lists(st.text(max_size=5), min_size=1, max_size=8), st.lists(st.text("ab", max_size=3)))
def test_what_is_told_is_what_was_sent_up_to_a_stop(texts, stops):
    node = Speaker(KEY, "p-1")
    reading = Reading(*node.answer(*texts), stops=tuple(stops))
    whole = "".join(texts)
    ends = [whole.find(stop) for stop in stops if stop and stop in whole]
    if not ends:
        assert reading.message.text == whole
    else:
        assert reading.message.stop == "stop_sequence"
        assert whole.startswith(reading.message.text + reading.message.stop_sequence)
