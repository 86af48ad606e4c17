import msgspec
import pytest
from hypothesis import given, settings
from tests import strategies
from tests.examples import examples

from toolbridge.core.messages import Call, Loss, Message, Request, Text, Thinking
from toolbridge.core.usage import Usage

ANSWER = Message(content=(Thinking("Hm"), Text("a"), Call("1", "f"), Text("b"), Call("2", "g")))


def test_a_message_tells_its_text_its_thoughts_and_its_calls():
    assert ANSWER.text == "ab"
    assert ANSWER.thinking == "Hm"
    assert [call.id for call in ANSWER.calls] == ["1", "2"]


def test_a_loss_reads_as_a_sentence():
    assert str(Loss("sampling.top_k", "Chat has none")) == "sampling.top_k: Chat has none"


@settings(max_examples=examples(30))
@given(strategies.requests())
def test_a_request_is_plain_json(request):
    assert msgspec.json.decode(msgspec.json.encode(request), type=Request) == request


@pytest.mark.parametrize(
    ("usage", "input_total", "total"),
    [
        (Usage(), 0, 0),
        (Usage(input=1, output=2, cache_read=4, cache_write=8, cache_write_long=8), 13, 15),
        (Usage(output=2, reasoning=2), 0, 2),
    ],
)
def test_every_token_is_counted_once(usage, input_total, total):
    assert (usage.input_total, usage.total) == (input_total, total)
