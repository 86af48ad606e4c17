"""Opaque tokens go back to the provider, API and model that made them."""

from toolbridge.core.messages import Call, Image, Opaque, Origin, Request, Text, Thinking, Turn
from toolbridge.history.seals import maker_name, own_seals

HERE = maker_name("anthropic", "p", "a")
THERE = maker_name("anthropic", "p", "b")


def token(origin: str, kind="signature") -> Opaque:
    return Opaque(origin, kind, "t")


def after(*parts, signed_only=False):
    found, losses = own_seals(
        Request("m", (Turn("assistant", parts),)), HERE, signed_only=signed_only
    )
    return found.turns[0].content, losses


def test_tokens_of_the_same_maker_and_of_an_unknown_one_are_kept():
    parts = (Thinking("x", (token(HERE),)), Thinking("y", (token("anthropic"),)))
    assert after(*parts) == (parts, [])


def test_a_thought_of_another_model_goes_where_only_signed_ones_are_taken():
    thought = Thinking("x", (token(THERE),), source=Origin("anthropic", "messages.1.content.0"))
    content, (loss,) = after(thought, Text("hi"), signed_only=True)
    assert content == (Text("hi"),)
    assert (loss.what, loss.minor) == ("messages.1.content.0", False)
    assert "p/b" in loss.why


def test_elsewhere_its_text_stays_without_the_token():
    content, _ = after(Thinking("x", (token(THERE), token(THERE, "item"))))
    assert content == (Thinking("x"),)


def test_a_call_loses_its_signature_and_keeps_the_rest():
    call = Call("c1", "f", opaque=(token(THERE, "thought_signature"), token(THERE, "item")))
    content, losses = after(call)
    assert content == (Call("c1", "f", opaque=(token(THERE, "item"),)),)
    assert len(losses) == 1


def test_parts_that_cannot_be_sealed_stay_beside_a_foreign_token():
    image = Image(data="aGk=", media_type="image/png")
    content, losses = after(image, Thinking("x", (token(THERE),)))
    assert content == (image, Thinking("x"))
    assert (losses[0].what, "was signed by p/b" in losses[0].why) == ("content.1", True)


def test_reasoning_of_the_responses_api_was_encrypted():
    here, there = (maker_name("openai_responses", "p", model) for model in "ab")
    thought = Thinking("x", (token(there, "encrypted"),))
    _, (loss,) = own_seals(Request("m", (Turn("assistant", (thought,)),)), here, signed_only=False)
    assert "was encrypted by p/b" in loss.why


def test_tokens_of_another_api_are_its_codecs_affair():
    parts = (Thinking("x", (token(maker_name("gemini", "p", "a")),)),)
    assert after(*parts) == (parts, [])
