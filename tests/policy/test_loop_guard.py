"""The loop guard: what counts as a repetition, the note and the error."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.errors import LoopDetected
from toolbridge.core.messages import Call, Image, Request, Result, Text, Turn
from toolbridge.policy.loop_guard import break_loop, last_repeats


def pair(n, name="Bash", arguments=None, text="no", *, error=False, cache="") -> list[Turn]:
    call = Call(f"c{n}", name, arguments or {"a": 1, "b": [2]})
    result = Result(f"c{n}", (Text(text, cache=cache),), is_error=error)
    return [Turn("assistant", (call,)), Turn("user", (result,))]


def conversation(*pairs) -> Request:
    turns = [Turn("user", (Text("go"),))]
    for each in pairs:
        turns += each
    return Request("m", tuple(turns))


def test_the_same_call_with_the_same_result_is_counted_from_the_end():
    pairs = [pair(0, text="other"), *(pair(n) for n in range(1, 4))]
    assert last_repeats(conversation(*pairs).turns) == ("Bash", 3)


@every_row(
    "other",
    [
        pair(9, name="Read"),
        pair(9, arguments={"a": 2}),
        pair(9, text="yes"),
        pair(9, error=True),
    ],
)
def test_another_call_or_result_ends_the_row(other):
    assert last_repeats(conversation(pair(1), other, pair(2)).turns) == ("Bash", 1)


def test_the_order_of_arguments_and_marks_of_caches_do_not_matter():
    again = pair(2, arguments={"b": [2], "a": 1}, cache="5m")
    assert last_repeats(conversation(pair(1), again).turns) == ("Bash", 2)


def test_parallel_calls_count_in_their_order():
    calls = tuple(Call(f"c{n}", "Bash", {}) for n in range(3))
    results = tuple(Result(f"c{n}", (Text("no"),)) for n in range(3))
    turns = (Turn("assistant", calls), Turn("user", results))
    assert last_repeats(turns) == ("Bash", 3)


def test_a_call_without_a_result_is_no_repetition():
    open_call = [Turn("assistant", (Call("c9", "Bash", {}),)), Turn("user", (Text("stop"),))]
    assert last_repeats(conversation(pair(1), pair(2), open_call).turns) == ("", 0)


def test_results_with_pictures_are_compared_too():
    def seen(n, data):
        result = Result(f"c{n}", (Image(data=data, media_type="image/png"),))
        return [Turn("assistant", (Call(f"c{n}", "Look", {}),)), Turn("user", (result,))]

    assert last_repeats(conversation(seen(1, "aa"), seen(2, "aa")).turns) == ("Look", 2)
    assert last_repeats(conversation(seen(1, "aa"), seen(2, "ab")).turns) == ("Look", 1)


@given(st.integers(0, 12), st.integers(0, 5))
def test_a_note_from_n_and_an_error_from_twice_n(count, most):
    request = conversation(*(pair(n) for n in range(count)))
    if most and count >= 2 * most:
        with pytest.raises(LoopDetected, match=f"{count} times in a row"):
            break_loop(request, most)
        return
    changed, losses = break_loop(request, most)
    if most and count >= most:
        (loss,) = losses
        assert f"Bash was called {count} times" in str(loss)
        assert changed.turns[:-1] == request.turns[:-1]
        *same, note = changed.turns[-1].content
        assert tuple(same) == request.turns[-1].content
        assert "same each time" in note.text
    else:
        assert (changed, losses) == (request, ())


def test_a_request_that_continues_an_answer_is_left_alone():
    request = conversation(pair(1), pair(2), pair(3))
    turns = (*request.turns, Turn("assistant", (Text("So"),)))
    request = msgspec.structs.replace(request, turns=turns)
    assert break_loop(request, 2) == (request, ())
