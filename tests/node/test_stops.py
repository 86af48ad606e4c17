import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbridge.node.stops import Scissors


def cut(stops, pieces):
    scissors = Scissors(stops)
    text = "".join(scissors.feed(piece) for piece in pieces) + scissors.close()
    return text, scissors.hit


@pytest.mark.parametrize(
    ("stops", "text", "left", "hit"),
    [
        (["END"], "one END two", "one ", "END"),
        (["END"], "one EN", "one EN", ""),
        (["END"], "EEND", "E", "END"),
        (["ab", "b"], "ab", "", "ab"),
        (["abc", "b"], "abc", "a", "b"),
        (["x", "y"], "-y-x", "-", "y"),
        ([""], "all", "all", ""),
        ([], "all", "all", ""),
        (["aab"], "aaab", "a", "aab"),
    ],
)
def test_text_ends_before_the_stop_that_is_complete_first(stops, text, left, hit):
    assert cut(stops, [text]) == (left, hit)
    assert cut(stops, text) == (left, hit)


few = st.text("ab\n", max_size=12)


@given(st.lists(few, max_size=3), st.lists(few, max_size=6))
def test_any_pieces_give_the_same_cut(stops, pieces):
    assert cut(stops, pieces) == cut(stops, ["".join(pieces)])


@given(st.lists(few.filter(bool), min_size=1, max_size=3), st.lists(few, max_size=6))
def test_what_is_told_holds_no_stop_and_is_the_beginning(stops, pieces):
    text, hit = cut(stops, pieces)
    whole = "".join(pieces)
    assert whole.startswith(text + hit)
    assert not any(stop in text for stop in stops)
    assert hit or text == whole


def test_nothing_is_told_after_the_cut():
    scissors = Scissors(["."])
    assert scissors.feed("a.b") == "a"
    assert scissors.feed("c") == ""
    assert scissors.close() == ""


def test_a_text_without_stops_is_held_no_longer_than_needed():
    scissors = Scissors(["</s>"])
    assert [scissors.feed(piece) for piece in ("a<", "b", "</", "s", "x")] == [
        "a", "<b", "", "", "</sx",
    ]  # fmt: skip
