from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.openai_chat.streams import calls, chunk, decode, entry, message
from tests.tables import every_row

from toolbridge.core import events as ev
from toolbridge.core.messages import Call, Text


def told(*frames):
    return [(call.name, call.arguments, call.raw) for call in message(*frames).calls]


@pytest.mark.req("ZG-10", "ZG-11", "ZG-05", "ZG-32", "ZG-35")
def test_pieces_go_to_the_call_of_their_index():
    found = message(
        calls(entry(0, "a", "read", ""), entry(1, "b", "write", "")),
        calls(entry(1, arguments='{"c":')),
        calls(entry(0, arguments='{"p":')),
        calls(entry(1, arguments="2}")),
        calls(entry(0, arguments="1}")),
    )
    assert {call.id: call for call in found.calls} == {
        "a": Call("a", "read", {"p": 1}),
        "b": Call("b", "write", {"c": 2}),
    }
    assert found.stop == "tool_use"


@pytest.mark.req("ZG-10", "ZG-11", "ZG-05")
@every_row(
    "order", sorted(set(permutations([0, 0, 1, 1, 2, 2])))[::6], ids=lambda o: "".join(map(str, o))
)
def test_three_calls_may_interleave_in_any_order(order):
    pieces = {0: ["{", '"a":1}'], 1: ["{", '"b":2}'], 2: ["{", '"c":3}']}
    heads = [calls(entry(n, f"id{n}", "f", "")) for n in range(3)]
    found = message(*heads, *(calls(entry(n, arguments=pieces[n].pop(0))) for n in order))
    assert {call.id: call.arguments for call in found.calls} == {
        "id0": {"a": 1},
        "id1": {"b": 2},
        "id2": {"c": 3},
    }


BOTH = [("f", {"p": 1}, ""), ("g", {"c": 2}, "")]
ONE = [("f", {"p": 1}, "")]


@pytest.mark.req("ZG-10", "ZG-11")
@every_row(
    ("frames", "expected"),
    {
        "one index, two ids": (
            [calls(entry(0, "a", "f", '{"p":1}')), calls(entry(0, "b", "g", '{"c":2}'))],
            BOTH,
        ),
        "one index, two ids, the first not whole": (
            [calls(entry(0, "a", "f", '{"p"')), calls(entry(0, "b", "g", '{"c":2}'))],
            [("f", {}, '{"p"'), ("g", {"c": 2}, "")],
        ),
        "one index, ids apart, pieces by id": (
            [
                calls(entry(0, "a", "f", '{"p"')),
                calls(entry(0, "b", "g", '{"c"')),
                calls(entry(0, "a", None, ":1}")),
                calls(entry(0, "b", None, ":2}")),
            ],
            BOTH,
        ),
        "two in one chunk": (
            [calls(entry(0, "a", "f", '{"p":1}'), entry(1, "b", "g", '{"c":2}'))],
            BOTH,
        ),
        "no index": (
            [calls(entry(None, "a", "f", '{"p":1}')), calls(entry(None, "b", "g", '{"c":2}'))],
            BOTH,
        ),
        "no index, pieces without id": (
            [
                calls(entry(None, "a", "f", "")),
                calls(entry(arguments='{"p":')),
                calls(entry(arguments="1}")),
                calls(entry(None, "b", "g", '{"c":2}')),
            ],
            BOTH,
        ),
        "no index, no id, two names": (
            [calls(entry(name="f", arguments='{"p":1}'), entry(name="g", arguments='{"c":2}'))],
            BOTH,
        ),
        "no index, no id, no arguments": (
            [calls(entry(name="f"), entry(name="g"))],
            [("f", {}, ""), ("g", {}, "")],
        ),
        "no index, no id, the same name twice": (
            [calls(entry(name="f", arguments='{"p":1}'), entry(name="f", arguments='{"p":2}'))],
            [("f", {"p": 1}, ""), ("f", {"p": 2}, "")],
        ),
        "id and name in every piece": (
            [calls(entry(0, "a", "f", '{"p"')), calls(entry(0, "a", "f", ":1}"))],
            ONE,
        ),
        "id and name once more, after all": (
            [calls(entry(0, "a", "f", '{"p":1}')), calls(entry(0, "a", "f", ""))],
            ONE,
        ),
        "name in every piece, no index": (
            [calls(entry(name="f", arguments='{"p"')), calls(entry(name="f", arguments=":1}"))],
            ONE,
        ),
        "an index for every piece, one id": (
            [calls(entry(0, "a", "f", '{"p"')), calls(entry(1, "a", None, ":1}"))],
            ONE,
        ),
        "an id for every piece, one index": (
            [calls(entry(0, "a", "f", '{"p"')), calls(entry(0, "z", None, ":1}"))],
            ONE,
        ),
        "one id for two calls": (
            [calls(entry(0, "a", "f", '{"p":1}')), calls(entry(1, "a", "g", '{"c":2}'))],
            BOTH,
        ),
        "an object after an object": (
            [calls(entry(0, "a", "f", '{"p":1}')), calls(entry(0, arguments=' {"p":2}'))],
            [("f", {"p": 1}, ""), ("f", {"p": 2}, "")],
        ),
        "two objects in one piece": (
            [calls(entry(0, "a", "f", '{"p":1}\n{"p":2}'))],
            [("f", {"p": 1}, ""), ("f", {"p": 2}, "")],
        ),
        "brackets inside a text": (
            [calls(entry(0, "a", "f", '{"p":"}{\\"')), calls(entry(0, arguments='\\\\"}'))],
            [("f", {"p": '}{"\\'}, "")],
        ),
        "an escape cut in two": (
            [calls(entry(0, "a", "f", '{"p":"\\')), calls(entry(0, arguments='"}{"}'))],
            [("f", {"p": '"}{'}, "")],
        ),
        "white space after an object": (
            [calls(entry(0, "a", "f", '{"p":1}')), calls(entry(0, arguments="\n"))],
            ONE,
        ),
        "something else after an object": (
            [calls(entry(0, "a", "f", '{"p":1}')), calls(entry(0, arguments="}"))],
            [("f", {}, '{"p":1}}')],
        ),
        "name in pieces": (
            [calls(entry(0, "a", "get_", "")), calls(entry(0, None, "it", '{"p":1}'))],
            [("get_it", {"p": 1}, "")],
        ),
        "name after arguments": (
            [calls(entry(0, "a", None, '{"p"')), calls(entry(0, None, "f", ":1}"))],
            ONE,
        ),
        "name null later on": (
            [
                calls(entry(0, "a", "f", '{"p"')),
                calls({"index": 0, "function": {"name": None, "arguments": ":1}"}}),
            ],
            ONE,
        ),
        "two entries with one index": (
            [
                calls(entry(0, "a", "f"), entry(0, arguments='{"p"')),
                calls(entry(0, arguments=":1}")),
            ],
            ONE,
        ),
        "arguments as an object": ([calls(entry(0, "a", "f", {"p": 1}))], ONE),
        "arguments as an empty object, then text": (
            [calls(entry(0, "a", "f", {})), calls(entry(0, arguments='{"p":1}'))],
            ONE,
        ),
        "arguments null": ([calls(entry(0, "a", "f"))], [("f", {}, "")]),
        "arguments as a list": ([calls(entry(0, "a", "f", [1]))], [("f", {}, "[1]")]),
        "no calls in the list": (
            [calls(entry(0, "a", "f", '{"p"')), calls(), calls(entry(0, arguments=":1}"))],
            ONE,
        ),
        "an entry that says nothing": ([calls(entry(0, "a", "f", '{"p":1}'), {"index": 1})], ONE),
        "no function at all": ([calls({"index": 0, "id": "a"})], []),
    }.values(),
)
def test_whatever_a_server_does_calls_stay_apart_and_whole(frames, expected):
    assert told(*frames) == expected


@pytest.mark.req("CL-08")
def test_a_call_without_an_id_or_with_a_used_one_gets_its_own():
    found = message(calls(entry(0, "a", "f", "{}"), entry(1, "a", "f", "{}"), entry(2, "", "f")))
    ids = [call.id for call in found.calls]
    assert ids[0] == "a"
    assert len(set(ids)) == 3
    assert all(ids)


def test_a_name_that_never_comes_loses_no_arguments():
    assert told(calls(entry(0, "a", None, '{"p":1}'))) == [("unknown", {"p": 1}, "")]


def test_a_whole_call_ends_before_anything_else_is_said():
    events = decode(
        calls(entry(0, "a", "f", '{"p":1}')) + chunk({"content": "Then."}) + chunk({}, "stop")
    )
    kinds = [type(event) for event in events]
    assert kinds.index(ev.CallEnd) < kinds.index(ev.TextStart)


def test_a_whole_call_ends_before_the_next_begins():
    events = decode(
        calls(entry(0, "a", "f", '{"p":1}')) + calls(entry(1, "b", "f", '{"p"')) + chunk({}, "stop")
    )
    told = [(type(e), e.index) for e in events if isinstance(e, ev.CallStart | ev.CallEnd)]
    assert told == [(ev.CallStart, 0), (ev.CallEnd, 0), (ev.CallStart, 1), (ev.CallEnd, 1)]


def test_a_call_opens_as_soon_as_its_arguments_begin():
    decoder_said = decode(calls(entry(0, "a", "f", '{"p"')))
    assert [type(event) for event in decoder_said[:3]] == [ev.Started, ev.CallStart, ev.CallDelta]


def test_an_earlier_call_without_arguments_opens_before_a_later_one():
    found = message(calls(entry(0, "a", "f", "")), calls(entry(1, "b", "g", "{}")))
    assert [call.id for call in found.calls] == ["a", "b"]


def test_the_legacy_call_is_a_call():
    found = message(
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"p":1}'}}),
        finish="function_call",
    )
    assert [(c.name, c.arguments) for c in found.calls] == [("f", {"p": 1})]
    assert found.stop == "tool_use"


@given(st.lists(st.text(max_size=6), max_size=5))
def test_free_text_comes_back_in_an_object(pieces):
    head = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "patch", "input": ""}}
    found = message(
        calls(head), *(calls({"index": 0, "custom": {"input": piece}}) for piece in pieces)
    )
    (call,) = found.calls
    assert call.arguments.get("input", "") == "".join(pieces)


def test_a_signature_of_gemini_stays_with_its_call():
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    (call,) = message(calls(entry(0, "a", "f", "{}", **signed))).calls
    assert [(o.origin, o.kind, o.value) for o in call.opaque] == [
        ("openai_chat", "thought_signature", "c2ln")
    ]


def test_half_a_surrogate_pair_in_an_object_is_replaced():
    raw = b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":'
    raw += b'{"name":"f","arguments":{"p":"\\ud83d"}}}]},"finish_reason":"stop"}]}\n\n'
    (call,) = message(raw).calls
    assert call.arguments == {"p": "\ufffd"}


@pytest.mark.req("ZG-12")
def test_text_and_calls_keep_their_order():
    found = message(
        chunk({"content": "First."}),
        calls(entry(0, "a", "f", "{}")),
        chunk({"content": "Then."}),
        calls(entry(1, "b", "g", "{}")),
    )
    assert found.content == (Text("First."), Call("a", "f"), Text("Then."), Call("b", "g"))


def test_many_objects_in_one_piece_take_linear_time():
    found = message(calls(entry(0, "a", "f", "{}" * 3000)))
    assert len(found.calls) == 3000


def test_a_name_after_a_whole_object_opens_a_call_that_ends_before_text():
    events = decode(
        calls(entry(0, "a", None, '{"p":1}'))
        + calls(entry(0, None, "f"))
        + chunk({"content": "Then."}, "stop")
    )
    kinds = [type(event) for event in events]
    assert kinds.index(ev.CallEnd) < kinds.index(ev.TextStart)


def test_many_calls_without_arguments_take_linear_time():
    found = message(calls(*(entry(n, f"id{n}", "f", "") for n in range(3000))))
    assert len(found.calls) == 3000


def test_a_call_that_began_as_a_function_stays_one():
    found = message(
        calls(entry(0, "a", "f", '{"p"')), calls({"index": 0, "custom": {"input": ":1}"}})
    )
    assert found.calls == (Call("a", "f", {"p": 1}),)
