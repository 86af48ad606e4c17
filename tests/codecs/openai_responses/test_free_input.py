import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies

from toolbridge.codecs.openai_responses.free_input import FreeInput
from toolbridge.core.json import dumps
from toolbridge.core.messages import Call


@given(strategies.texts, st.data())
def test_the_text_comes_as_it_is_written(text, data):
    written = dumps({"input": text})
    reader = FreeInput()
    given = [reader.feed(piece) for piece in data.draw(strategies.pieces(written))]
    assert "".join(given) == text
    assert not reader.cut
    assert reader.close(Call("c", "f", {"input": text})) == ""


def test_the_text_does_not_wait_for_its_end():
    reader = FreeInput()
    assert reader.feed('{"input":"*** Beg') == "*** Beg"
    assert reader.feed("in") == "in"
    assert reader.cut


@pytest.mark.parametrize(
    ("written", "call", "text"),
    [
        ("", Call("c", "f"), "{}"),
        ('{"patch":"x"}', Call("c", "f", {"patch": "x"}), "x"),
        ("*** Begin", Call("c", "f", raw="*** Begin"), "*** Begin"),
    ],
)
def test_what_is_wrapped_otherwise_comes_with_the_end(written, call, text):
    reader = FreeInput()
    assert reader.feed(written) == ""
    assert reader.close(call) == text
    assert reader.given == text


def test_a_text_that_ends_otherwise_than_it_began_is_not_told_twice():
    reader = FreeInput()
    reader.feed('{"input":"ab"')
    reader.feed(',"input":"x')
    assert reader.close(Call("c", "f", {"input": "xyz"})) == ""
    assert reader.given == "ab"
