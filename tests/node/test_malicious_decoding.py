"""A host that lies about counts, about the end and about the length, as the decoder sees it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.frames import Speaker
from tests.node.test_decode_answer import KEY, Reading

from toolbridge.core import events as ev
from toolbridge.core.usage import Usage
from toolbridge.node.protocol.delivered import DeliveredTokens, Tolerance, read_count, show_claim

LIES = [
    10**9, 1e9, 10**30, 1e30, -50, -1e-3, "3", "1000000000", [3], {}, True, 2.5, 10**400,
]  # fmt: skip
"""Counts of an answer of three tokens that no host can mean."""


@pytest.fixture
def node():
    return Speaker(KEY, "p-1")


def lost(reading):
    return [str(event.loss) for event in reading.events if isinstance(event, ev.Lost)]


class TestCounts:
    @pytest.mark.parametrize("claim", LIES, ids=show_claim)
    @pytest.mark.parametrize("where", ["usage", "tokens_used"])
    def test_a_count_that_is_not_credible_is_replaced_by_ours_and_reported(
        self, node, claim, where
    ):
        *text, end = node.answer("a", "b", "c")
        if where == "usage":
            end["usage"]["completion_tokens"] = claim
        else:
            end["tokens_used"] = claim
        reading = Reading(*text, end)
        assert (reading.message.stop, reading.message.text) == ("end", "abc")
        assert reading.message.usage == Usage(input=11, output=3)
        assert "an answer of 3 tokens by our count" in reading.decoder.refusal
        assert show_claim(claim) in reading.decoder.refusal
        assert [reading.decoder.refusal in one for one in lost(reading)] == [True]

    @pytest.mark.parametrize("claim", LIES, ids=show_claim)
    def test_a_count_of_a_chunk_is_judged_too(self, node, claim):
        chunks = [node.chunk("a"), node.chunk("b", tokens=claim)]
        end = [node.chunk("", final=True), node.response(), node.end(used=2)]
        reading = Reading(*chunks, *end)
        assert reading.message.usage.output == 2
        assert reading.decoder.refusal

    def test_too_few_tokens_are_not_credible_either(self, node):
        *text, end = node.answer(*["word "] * 200)
        end["usage"]["completion_tokens"] = 0
        reading = Reading(*text, end)
        assert reading.message.usage.output == 200
        assert "claims 0 tokens for an answer of 200" in reading.decoder.refusal

    @pytest.mark.parametrize("claim", [0, 2, 3, 4, 36])
    def test_a_count_within_the_tolerance_is_the_hosts(self, node, claim):
        *text, end = node.answer("a", "b", "c")
        end["usage"]["completion_tokens"] = claim
        reading = Reading(*text, end)
        assert reading.message.usage.output == (claim or 3)
        assert (reading.decoder.refusal, lost(reading)) == ("", [])

    def test_every_count_that_is_a_number_is_accepted_without_a_tolerance(self, node):
        *text, end = node.answer("a")
        end["usage"]["completion_tokens"] = 10**9
        reading = Reading(*text, end, tolerance=Tolerance(0))
        assert (reading.message.usage.output, reading.decoder.refusal) == (10**9, "")

    def test_emoji_may_be_one_token_per_byte(self, node):
        *text, end = node.answer(*"😀🎉🚀🌍" * 50)
        end["usage"]["completion_tokens"] = 800
        assert Reading(*text, end).decoder.refusal == ""

    @pytest.mark.parametrize(
        ("claim", "images", "taken"),
        [(1234, 1, 1234), (1234, 0, 0), (10**9, 1, 0), (-5, 1, 0), ("7", 1, 0), (0, 0, 0)],
    )
    def test_tokens_for_images_need_images(self, node, claim, images, taken):
        *text, end = node.answer("a")
        reading = Reading(*text, end | {"vlm_tokens": claim}, images=images)
        assert reading.decoder.vlm_tokens == reading.message.usage.vision == taken
        assert bool(reading.decoder.refusal) is (taken != claim)

    @pytest.mark.parametrize(("claim", "shown"), [(40, 40), (10**9, 0), (-1, 0), ("x", 0)])
    def test_a_prompt_has_no_more_tokens_than_bytes(self, node, claim, shown):
        *text, end = node.answer("a")
        end["usage"]["prompt_tokens"] = claim
        assert Reading(*text, end, size=100).message.usage.input == shown


class TestLength:
    def test_one_chunk_with_a_book_in_it_is_cut_at_the_limit(self, node):
        reading = Reading(node.chunk("word " * 10**6), close=False, max_tokens=50)
        assert reading.decoder.enough
        reading.feed(node.end("cancelled", used=1))
        assert reading.message.stop == "length"
        assert 0 < len(reading.message.text) <= 200

    def test_many_chunks_with_more_than_a_token_each_are_cut(self, node):
        pieces = (node.chunk("several words in every chunk ") for _ in range(50))
        reading = Reading(*pieces, close=False, max_tokens=50)
        assert reading.decoder.overrun
        assert len(reading.message.text) <= (3 * 50 + 64) * 4 + 29

    def test_spaces_are_cut_by_their_bytes(self, node):
        reading = Reading(*(node.chunk(" " * 1000) for _ in range(50)), close=False, max_tokens=50)
        assert reading.decoder.overrun
        assert len(reading.message.text) <= 50 * 128

    @pytest.mark.parametrize("text", ["", "a"])
    def test_more_chunks_than_tokens_are_cut_whatever_is_in_them(self, node, text):
        reading = Reading(*(node.chunk(text) for _ in range(51)), close=False, max_tokens=50)
        assert reading.decoder.overrun
        assert reading.message.text == text * 50

    @pytest.mark.parametrize(
        "text", [" " * 128, " internationalisation"[:12], "    return x\n", "你好", "слово ", "="]
    )
    def test_a_host_that_keeps_to_the_limit_is_not_cut(self, node, text):
        reading = Reading(*node.answer(*[text] * 40, finish="length"), max_tokens=40)
        assert (reading.message.text, reading.message.stop) == (text * 40, "length")
        assert not reading.decoder.overrun
        assert not reading.decoder.refusal


class TestTheEnd:
    def ends(self, node, *, final=True, responds=True, end=True, **sent):
        pieces = [node.chunk("a"), node.chunk("b")]
        pieces += [node.chunk("", final=True)] if final else []
        pieces += [node.response()] if responds else []
        pieces += [node.end(used=2)] if end else []
        return Reading(*pieces, **sent)

    @pytest.mark.parametrize("end", [True, False])
    def test_an_end_that_is_sealed_is_an_end(self, node, end):
        assert self.ends(node, end=end).message.stop == "end"

    @pytest.mark.parametrize("end", [True, False])
    @pytest.mark.parametrize("what", [{"responds": False}, {"final": False}])
    def test_an_end_that_is_not_sealed_is_a_truncation(self, node, what, end):
        reading = self.ends(node, end=end, **what)
        assert (reading.problem.kind, reading.message.text) == ("truncated", "ab")
        assert reading.decoder.unsealed
        assert "old_nodes" in reading.problem.text

    def test_a_forged_final_chunk_and_end_are_a_truncation(self, node):
        first, forged = node.chunk("a"), node.chunk("b") | {"final": True}
        reading = Reading(first, forged, node.end(used=2, finish_reason="stop"))
        assert reading.problem.kind == "truncated"

    def test_a_confirmation_does_not_hide_that_the_last_chunks_were_dropped(self, node):
        first = node.chunk("a") | {"final": True}
        node.chunk("b")
        node.chunk("", final=True)
        reading = Reading(first, node.response(), node.end(used=1))
        assert reading.problem.kind == "truncated"

    @pytest.mark.parametrize("end", [True, False])
    def test_a_node_of_an_old_version_is_accepted_by_a_setting_and_reported(self, node, end):
        reading = self.ends(node, responds=False, end=end, old_nodes=True)
        assert (reading.message.stop, reading.message.text) == ("end", "ab")
        assert ["the node did not confirm it" in one for one in lost(reading)] == [True]

    def test_an_end_before_any_mark_is_a_truncation_for_old_nodes_too(self, node):
        reading = self.ends(node, final=False, responds=False, old_nodes=True)
        assert reading.problem.kind == "truncated"

    def test_a_confirmation_with_other_words_confirms_nothing(self, node):
        pieces = [node.chunk("a"), node.chunk("", final=True), node.response("perhaps")]
        assert Reading(*pieces, node.end(used=1)).problem.kind == "truncated"


@given(st.one_of(st.integers(), st.floats(), st.text(max_size=5), st.none(), st.booleans()))
def test_a_count_is_a_whole_number_or_nothing(claim):
    found = read_count(claim)
    assert found is None or (found >= 0 and found == claim)
    assert show_claim(claim).isprintable()


@given(st.lists(st.text(max_size=9), max_size=40), st.integers(1, 30))
def test_what_is_within_the_limit_never_exceeds_what_the_limit_can_hold(texts, limit):
    counted, held = DeliveredTokens(Tolerance()), ""
    for text in texts:
        counted.feed(text)
        if counted.exceeds(limit):
            break
        held += text
    assert len(held.encode()) <= 128 * limit
    assert counted.accepts(counted.count)
