"""Tokens that a client cannot carry come back all the same."""

import pytest

from toolbridge.core.messages import Call, Message, Opaque, Request, Text, Thinking, Turn
from toolbridge.server import opaque_tokens
from toolbridge.server.opaque_tokens import OpaqueTokens
from toolbridge.store.sqlite import SqliteStore

SEAL = Opaque("gemini", "thought_signature", "s1")


def history(*parts) -> Request:
    return Request("m", (Turn("user", (Text("a"),)), Turn("assistant", parts)))


def test_tokens_of_calls_and_thoughts_are_put_back():
    kept = OpaqueTokens()
    kept.keep(Message(content=(Thinking("hm\n", (SEAL,)), Call("c1", "f", opaque=(SEAL,)))), "me")
    found = kept.restore(history(Thinking("hm"), Call("c1", "f"), Call("c2", "f")), "me")
    thought, first, second = found.turns[1].content
    assert (thought.opaque, first.opaque, second.opaque) == ((SEAL,), (SEAL,), ())


def test_nobody_gets_the_tokens_of_another_caller():
    kept = OpaqueTokens()
    kept.keep(Message(content=(Call("c1", "f", opaque=(SEAL,)),)), "me")
    assert kept.restore(history(Call("c1", "f")), "you") == history(Call("c1", "f"))


def test_tokens_that_the_client_carried_are_not_doubled():
    kept = OpaqueTokens()
    call = Call("c1", "f", opaque=(SEAL,))
    kept.keep(Message(content=(call,)), "")
    assert kept.restore(history(call), "") == history(call)


def test_the_oldest_are_forgotten():
    kept = OpaqueTokens(most=2)
    for n in range(3):
        kept.keep(Message(content=(Call(f"c{n}", "f", opaque=(SEAL,)),)), "")
    found = kept.restore(history(*(Call(f"c{n}", "f") for n in range(3))), "").turns[1].content
    assert [bool(call.opaque) for call in found] == [False, True, True]


def test_a_token_that_the_client_carries_is_known_by_its_maker():
    kept = OpaqueTokens()
    thought = Thinking("hm", (Opaque("anthropic", "signature", "s"),))
    kept.keep(Message(content=(thought,)), "me", "anthropic/p/a")
    (found,) = kept.restore(history(thought), "me").turns[1].content
    assert [token.origin for token in found.opaque] == ["anthropic/p/a"]
    assert kept.restore(history(thought), "you") == history(thought)


async def test_another_process_finds_the_tokens_in_the_store(tmp_path):
    file = tmp_path / "x.sqlite"
    secret = "sk_live_1234567890abcdef"
    one, two = SqliteStore(file), SqliteStore(file)
    first, second = OpaqueTokens(one), OpaqueTokens(two)
    masked = Opaque("gemini", "thought_signature", secret)
    parts = (
        Thinking("hm", opaque=(Opaque("anthropic", "signature", "c2ln"),)),
        Call("c1", "f", opaque=(Opaque("gemini", "thought_signature", "AbC="),)),
        Call("c2", "f", opaque=(masked,)),
    )
    first.keep(Message(content=parts), "ada", "gemini/google/g")
    await first.close()
    asked = Request(
        model="m",
        turns=(Turn("assistant", (Thinking("hm"), Call("c1", "f"), Call("c2", "f"))),),
    )
    for caller, expected in (("ada", ["c2ln", "AbC=", None]), ("bob", [None, None, None])):
        found = await second.restored(asked, caller)
        tokens = [part.opaque for part in found.turns[0].content]
        assert [kept[0].value if kept else None for kept in tokens] == expected
    assert (await second.restored(asked, "ada")).turns[0].content[1].opaque[0].origin == (
        "gemini/google/g"
    )
    for store in (one, two):
        await store.close()


def sealed(n: int) -> Opaque:
    return Opaque("anthropic", "signature", f"s{n}")


def seals(request: Request) -> list[list[str]]:
    thoughts = [
        part for turn in request.turns for part in turn.content if isinstance(part, Thinking)
    ]
    return [[token.value for token in thought.opaque] for thought in thoughts]


def test_equal_thoughts_have_their_own_tokens():
    kept = OpaqueTokens()
    for n in range(3):
        after = Call(f"c{n}", "f") if n else Text("first")
        kept.keep(Message(content=(Thinking("Hmm.", (sealed(n),)), after)), "me")
    turns = [
        Turn("assistant", (Thinking("Hmm."), Text("first"))),
        Turn("assistant", (Thinking("Hmm."), Text("words of the client"), Call("c1", "f"))),
        Turn("assistant", (Thinking("Hmm."), Call("c2", "f"))),
    ]
    assert seals(kept.restore(Request("m", tuple(turns)), "me")) == [["s0"], ["s1"], ["s2"]]
    assert seals(kept.restore(Request("m", tuple(turns[1:])), "me")) == [["s1"], ["s2"]]


def test_a_token_is_not_given_to_two_thoughts():
    kept = OpaqueTokens()
    kept.keep(Message(content=(Thinking("Hmm.", (sealed(1),)), Call("c1", "f"))), "me")
    other = Turn("assistant", (Thinking("Hmm."), Text("a text of another client")))
    mine = Turn("assistant", (Thinking("Hmm."), Call("c1", "f")))
    assert seals(kept.restore(Request("m", (other,)), "me")) == [["s1"]]
    assert seals(kept.restore(Request("m", (mine, other, mine)), "me")) == [["s1"], [], []]


def test_a_thought_that_comes_back_in_pieces_has_its_token():
    kept = OpaqueTokens()
    kept.keep(Message(content=(Thinking("One thought.", (sealed(1),)), Call("c1", "f"))), "me")
    pieces = (Thinking("One "), Thinking("thou"), Thinking("ght."), Call("c1", "f"))
    (turn,) = kept.restore(Request("m", (Turn("assistant", pieces),)), "me").turns
    assert turn.content == (Thinking("One thought.", (sealed(1),)), Call("c1", "f"))
    unknown = Request("m", (Turn("assistant", (Thinking("Two "), Thinking("of"), Text("x"))),))
    assert kept.restore(unknown, "me") == unknown


CLAUDE = "anthropic/p/claude"


@pytest.mark.parametrize("text", ["hm", ""])
def test_a_thought_that_the_client_has_not_sent_is_put_back_before_its_call(text):
    kept = OpaqueTokens()
    thought = Thinking(text, (sealed(1),))
    kept.keep(
        Message(content=(thought, Text("Well."), Call("c1", "f"), Call("c2", "f"))), "me", CLAUDE
    )
    calls = (Text("Well."), Call("c1", "f"), Call("c2", "f"))

    def restored(*parts, maker=CLAUDE, caller="me", origin="openai_chat"):
        request = Request("m", (Turn("assistant", parts),), origin=origin)
        return kept.restore(request, caller, maker).turns[0].content

    whole = restored(*calls)
    assert whole[1:] == calls
    assert (whole[0].text, [token.value for token in whole[0].opaque]) == (text, ["s1"])
    assert [token.origin for token in whole[0].opaque] == [CLAUDE]
    assert restored(*whole) == whole
    assert restored(Thinking("of another model"), *calls)[0] == Thinking("of another model")
    assert restored(*calls, maker="anthropic/p/other") == calls
    assert restored(*calls, caller="you") == calls
    assert restored(*calls, origin="anthropic") == calls
    assert restored(*calls, maker="") == calls


RANDOM = ["toolu_01A09q90qw90lq917835lq9", "call_6e8735609d218c7a", "D681PevKs", "call_x4Yz81Qa"]
NUMBERED = ["call_0", "functions.get_weather:0", "get_weather-12", "call_weather1", "call_00000012"]


@pytest.mark.parametrize("id", RANDOM)
def test_a_call_with_a_random_id_is_known_also_with_other_arguments(id):
    kept = OpaqueTokens()
    kept.keep(Message(content=(Call(id, "f", {"a": 1}, opaque=(SEAL,)),)), "me")
    (call,) = kept.restore(history(Call(id, "f", {"a": 1, "b": None})), "me").turns[1].content
    assert call.opaque == (SEAL,)


@pytest.mark.parametrize("id", NUMBERED)
def test_a_call_with_a_numbered_id_is_that_of_another_conversation_with_other_arguments(id):
    kept = OpaqueTokens()
    mine = Call(id, "f", {"a": 1, "b": "x"}, opaque=(sealed(1),))
    kept.keep(Message(content=(Thinking("hm", (sealed(1),)), mine)), "me", CLAUDE)
    for other in (Call(id, "f", {"a": 2}), Call(id, "g", {"a": 1, "b": "x"}), Call(id, "f")):
        request = Request("m", (Turn("assistant", (other,)),), origin="openai_chat")
        assert kept.restore(request, "me", CLAUDE) == request
    same = Call(id, "f", {"b": "x", "a": 1})
    request = Request("m", (Turn("assistant", (same,)),), origin="openai_chat")
    thought, call = kept.restore(request, "me", CLAUDE).turns[0].content
    assert [token.value for token in (*thought.opaque, *call.opaque)] == ["s1", "s1"]


def test_each_call_of_a_conversation_that_repeats_an_id_gets_its_own_thought():
    kept = OpaqueTokens()
    calls = [Call("call_0", "f", {"turn": n}) for n in range(3)]
    for n, call in enumerate(calls):
        kept.keep(Message(content=(Thinking(f"t{n}", (sealed(n),)), call)), "me", CLAUDE)
    request = Request("m", tuple(Turn("assistant", (c,)) for c in calls), origin="openai_chat")
    found = kept.restore(request, "me", CLAUDE)
    assert seals(found) == [["s0"], ["s1"], ["s2"]]


def test_the_thoughts_that_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(opaque_tokens, "_THOUGHT_BYTES", 1000)
    kept = OpaqueTokens()
    for n in range(10):
        parts = (Thinking("x" * 300, (sealed(n),)), Call(f"c{n}", "f"))
        kept.keep(Message(content=parts), "me", CLAUDE)
    found = [
        len(
            kept.restore(Request("m", (Turn("assistant", (Call(f"c{n}", "f"),)),)), "me", CLAUDE)
            .turns[0]
            .content
        )
        for n in range(10)
    ]
    assert found == [1] * 7 + [2] * 3
