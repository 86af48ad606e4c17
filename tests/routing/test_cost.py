"""What a piece of an answer costs, counted in calls."""

import json

from tests.work import calls_made

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext, Outgoing
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Request
from toolbridge.dialects.gate import ThoughtGate
from toolbridge.policy.answer_stages import AnswerStages
from toolbridge.translate import PreparedRequest, answer_stages

PER_PIECE = 30


def line(text):
    return json.dumps({"model": "m", "message": {"content": text}, "done": False}).encode() + b"\n"


def test_a_piece_of_a_stream_takes_few_calls():
    decoder = codecs.load("ollama").stream_decoder(Ids(b"x"))
    encoder = codecs.load("anthropic").stream_encoder(AnswerContext())
    request = Request("m")
    stages = answer_stages(
        request, PreparedRequest(Outgoing("", {}), request, (), {}), model="m", seed=b"x"
    )

    def pass_on(piece):
        return b"".join(b for e in stages.feed_all(decoder.feed(piece)) for b in encoder.feed(e))

    pass_on(line("Once"))
    pieces = [line(f" word{number}") for number in range(100)]
    assert calls_made(lambda: [pass_on(piece) for piece in pieces]) <= PER_PIECE * len(pieces)


def test_an_open_gate_passes_a_batch_as_it_is():
    stages = AnswerStages([ThoughtGate()], ())
    begun = [ev.Started("msg_1", "m"), ev.TextStart(0), ev.TextDelta(0, "Hello")]
    assert stages.feed_all(begun) == begun
    batch = [ev.TextDelta(0, " <think>")]
    assert stages.feed_all(batch) is batch


def test_a_closed_gate_holds_what_may_be_a_thought():
    stages = AnswerStages([ThoughtGate()], ())
    held = [ev.Started("msg_1", "m"), ev.TextStart(0), ev.TextDelta(0, "<thi")]
    assert stages.feed_all(held) == []
    assert stages.feed_all([ev.TextDelta(0, "s>")]) == [*held, ev.TextDelta(0, "s>")]
