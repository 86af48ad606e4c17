"""Marks in text that is still arriving."""

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.wire.tags import Cursor, Ending, JsonWalk, Marks

BRACKETS = ("<a>", "<ab>", "</a>", "⟦BEGIN_OBJECT", "⟧")


def scanned(pieces, marks=BRACKETS):
    """Return the texts before each mark, each with its mark; the last one has none."""
    cursor, found, text = Cursor(), [], []

    def read():
        while True:
            mark = yield from cursor.until(Marks(marks), text.append)
            found.append(("".join(text), mark))
            text.clear()
            if not mark:
                return

    run(read(), cursor, pieces)
    return found


def run(wait, cursor, pieces):
    """Feed the pieces to something that waits; return what it returns."""
    generator = wait
    for piece in [*pieces, None]:
        cursor.end() if piece is None else cursor.feed(piece)
        try:
            next(generator)
        except StopIteration as end:
            return end.value
    raise AssertionError("it still waits at the end")


class TestMarks:
    def test_the_first_mark_is_found(self):
        assert Marks(["<b>", "<a>"]).find("x<a><b>", 0, ended=True) == (1, 4)

    def test_of_two_marks_at_one_place_the_longer_is_found(self):
        assert Marks(["<a", "<ab"]).find("<abc", 0, ended=True) == (0, 3)

    def test_a_mark_that_may_grow_is_not_certain_yet(self):
        marks = Marks(["<a", "<ab"])
        assert marks.find("x<a", 0, ended=False) == (1, 1)
        assert marks.find("x<a", 0, ended=True) == (1, 3)

    def test_a_mark_inside_the_beginning_of_another_waits_for_it(self):
        assert Marks(["ab!", "b"]).find("xab", 0, ended=False) == (1, 1)

    @every_row(
        ("text", "held"), [("x", 0), ("x<", 1), ("x<tool_", 6), ("<too<to", 3), ("<tool_call>", 0)]
    )
    def test_no_more_is_held_than_the_beginning_of_a_mark(self, text, held):
        assert Marks(["<tool_call>"]).held(text) == held

    def test_without_marks_nothing_is_found_or_held(self):
        assert Marks(()).find("<a>", 0, ended=False) == (3, 3)

    @given(
        st.lists(st.text("<a b", min_size=1, max_size=7), max_size=4),
        st.text("<a b", max_size=12),
        st.booleans(),
    )
    def test_the_first_look_misses_neither_a_mark_nor_its_beginning(self, marks, text, ended):
        assert Marks(marks).find(text, 0, ended=ended) == plainly_found(marks, text, ended=ended)


def plainly_found(marks, text, *, ended):
    """Look at every place in turn."""
    for at in range(len(text)):
        rest = text[at:]
        if not ended and any(mark.startswith(rest) and mark != rest for mark in marks):
            return at, at
        here = [mark for mark in marks if rest.startswith(mark)]
        if here:
            return at, at + max(map(len, here))
    return len(text), len(text)


class TestUntil:
    def test_texts_and_marks_come_in_order(self):
        assert scanned(["x<a>y</a>"]) == [("x", "<a>"), ("y", "</a>"), ("", "")]

    def test_the_end_releases_a_beginning(self):
        assert scanned(["x<a"]) == [("x<a", "")]

    def test_no_more_is_held_back_than_a_beginning(self):
        cursor, said = Cursor(), []
        waiting = cursor.until(Marks(BRACKETS), said.append)
        cursor.feed("some words <")
        next(waiting)
        assert said == ["some words "]

    @given(st.lists(st.sampled_from([*BRACKETS, "<", "a", ">", "⟦", "/", "BEGIN"])).map("".join))
    def test_one_character_at_a_time_changes_nothing(self, text):
        assert scanned(list(text)) == scanned([text])

    @given(st.lists(st.sampled_from([*BRACKETS, "<", "a", ">"])).map("".join))
    def test_nothing_is_lost(self, text):
        assert "".join(before + mark for before, mark in scanned([text])) == text


class TestCursor:
    def test_going_back_gives_everything_again(self):
        cursor = Cursor()
        cursor.feed("abc")
        place = cursor.remember()
        cursor.take(2)
        cursor.feed("def")
        cursor.take(2)
        cursor.rewind(place)
        assert cursor.take(9) == "abcdef"

    def test_places_nest(self):
        cursor = Cursor()
        cursor.feed("abcd")
        outer = cursor.remember()
        cursor.take(1)
        inner = cursor.remember()
        cursor.take(2)
        cursor.rewind(inner)
        assert cursor.take(1) == "b"
        cursor.rewind(outer)
        assert cursor.take(9) == "abcd"

    @every_row(
        ("text", "follows"), [("  x", True), (" y", False), ("  ", True), ("", True), ("x", True)]
    )
    def test_what_follows_white_space_is_seen(self, text, follows):
        cursor = Cursor()
        assert run(cursor.follows("x"), cursor, list(text)) is follows

    def test_the_end_may_count_as_nothing(self):
        cursor = Cursor()
        assert run(cursor.follows("x", at_end=False), cursor, [" "]) is False

    def test_the_longest_of_the_marks_is_accepted(self):
        cursor = Cursor()
        assert run(cursor.accept("a", "abc"), cursor, ["a", "b", "c"]) == "abc"
        cursor = Cursor()
        assert run(cursor.accept("a", "abc"), cursor, ["a", "b", "d"]) == "a"
        assert cursor.take(9) == "bd"


def walk(pieces, ends=("</end>",)):
    cursor, said = Cursor(), []
    ending = run(JsonWalk(cursor, said.append, Marks(ends)).value(), cursor, pieces)
    return ending, "".join(said)


class TestJsonWalk:
    def test_escapes_do_not_cut_a_string_into_small_pieces(self):
        cursor, said = Cursor(), []
        walk = JsonWalk(cursor, said.append, Marks(())).value()
        run(walk, cursor, [r'"a\nb\"c', r'\\d"'])
        assert said == ['"', r"a\nb\"c", r"\\d", '"']

    @every_row(
        "text",
        [
            '{"a": "</end>"}',
            '{"a": [1, {"b": null}], "c": "}"}',
            '["\\"]", "\\\\"]',
            '"text"',
            "{'a': 'it\\'s'}",
            "{}",
        ],
    )
    @every_row("size", [1, 3, 99])
    def test_a_value_ends_where_its_brackets_do(self, text, size):
        whole = text + "</end> rest"
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert walk(pieces) == (Ending.WHOLE, text)

    @every_row("text", ["42", "true", "-1.5e3", "null"])
    def test_a_scalar_ends_before_what_cannot_be_its_own(self, text):
        assert walk(list(text + ', "x"')) == (Ending.WHOLE, text)

    def test_a_value_that_does_not_end_is_cut(self):
        assert walk(['{"a": "b']) == (Ending.CUT, '{"a": "b')

    def test_a_mark_outside_a_string_ends_a_broken_value(self):
        assert walk(['{"a": 1</end>']) == (Ending.BROKEN, '{"a": 1')

    def test_after_an_unescaped_quote_only_a_mark_ends_the_value(self):
        assert walk(['{"a": "b"c}"}</end>']) == (Ending.BROKEN, '{"a": "b"c}"}')

    def test_a_bracket_that_closes_nothing_breaks_the_value(self):
        assert walk(["{]}</end>"])[0] is Ending.BROKEN

    def test_what_begins_no_value_is_broken(self):
        assert walk([": 1"]) == (Ending.BROKEN, "")
