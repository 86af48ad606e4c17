"""Parallel calls, told one at a time."""

import pytest

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Call, Request, Result, Text, Thinking, Turn
from toolbridge.history import prepare

LOOSE = Rules()
A, B, C = Call("a", "Read"), Call("b", "Bash"), Call("c", "Read")
RA, RB, RC = (
    Result(i, (Text(f"r{i}"),), name=n)
    for i, n in zip("abc", ("Read", "Bash", "Read"), strict=True)
)


def assistant(*parts):
    return Turn("assistant", parts)


def user(*parts):
    return Turn("user", parts)


def told(*turns, rules=LOOSE):
    return prepare(Request("m", turns), rules, sequential=True).request.turns


@pytest.mark.req("PX-X2")
def test_parallel_calls_become_pairs_and_text_beside_the_results_follows_the_last():
    given = (
        user(Text("q")),
        assistant(Thinking("hm"), Text("first"), A, Text("then"), B, C, Text("done")),
        user(RC, Text("mind this"), RA, RB),
    )
    assert told(*given) == (
        user(Text("q")),
        assistant(Thinking("hm"), Text("first"), A),
        user(RA),
        assistant(Text("then"), B),
        user(RB),
        assistant(C, Text("done")),
        user(RC, Text("mind this")),
    )


@pytest.mark.req("PX-X2")
def test_an_unmatched_call_is_kept_with_an_error_for_a_result():
    turns = told(assistant(A, B), user(RA, Text("t")))
    missing = Result(
        "b", (Text("[no result: the call was interrupted]"),), is_error=True, name="Bash"
    )
    assert turns == (assistant(A), user(RA), assistant(B), user(missing, Text("t")))


@pytest.mark.req("PX-X2")
def test_single_calls_are_left_alone():
    given = (assistant(A), user(RA), assistant(Text("t"), B), user(RB))
    assert told(*given) == given


@pytest.mark.req("PX-X2")
def test_pairs_are_made_also_for_a_target_that_does_not_ask_for_them():
    turns = told(assistant(A, B), user(RB, RA), rules=Rules(pairs=False))
    assert turns == (assistant(A), user(RA), assistant(B), user(RB))
