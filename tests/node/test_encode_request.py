import pytest
from tests.tables import every_row

from toolbridge.core.codec import Target
from toolbridge.core.messages import (
    Image,
    OutputFormat,
    Request,
    Sampling,
    Text,
    Think,
    Tool,
    Turn,
)
from toolbridge.history import prepare
from toolbridge.node.protocol.encode_request import RULES, encode_request

TURNS = (Turn("user", (Text("hi"),)),)


def encoded(target=None, **fields):
    return encode_request(Request("m", TURNS, **fields), target or Target("repo:file"))


def lost(outgoing):
    return [loss.what for loss in outgoing.losses]


def test_a_plain_request_is_the_prompt_and_its_settings():
    assert encoded().body == {
        "prompt": "<|im_start|>user\nhi\n<|im_end|>\n<|im_start|>assistant\n",
        "model": "repo:file",
        "max_tokens": 4000,
        "temperature": 0.7,
        "stream": True,
    }
    assert lost(encoded()) == []


def test_what_the_client_asks_for_is_sent():
    outgoing = encoded(max_tokens=12, sampling=Sampling(temperature=0.0), stop=("END",))
    assert outgoing.body["max_tokens"] == 12
    assert outgoing.body["temperature"] == 0.0
    assert "stop" not in outgoing.body
    assert lost(outgoing) == []


@pytest.mark.req("CB-03")
def test_pictures_are_attached():
    turns = (Turn("user", (Image(data="aGk=", media_type="image/png"),)),)
    outgoing = encode_request(Request("m", turns), Target("x"))
    assert outgoing.body["images"] == [{"data": "aGk=", "format": "png"}]


@pytest.mark.parametrize(("asked", "sent"), [(-1.0, 0.0), (2.5, 2.0), (1e300, 2.0)])
def test_a_temperature_that_a_node_cannot_read_is_brought_within_reach(asked, sent):
    outgoing = encoded(sampling=Sampling(temperature=asked))
    assert outgoing.body["temperature"] == sent
    assert lost(outgoing) == ["sampling.temperature"]


@pytest.mark.parametrize(("asked", "sent"), [(2**40, 2**32 - 1), (0, 4000), (-5, 1)])
def test_a_limit_that_a_node_cannot_read_is_brought_within_reach(asked, sent):
    assert encoded(max_tokens=asked).body["max_tokens"] == sent


@every_row(
    ("think", "sent"),
    [
        (Think(), None),
        (Think("auto"), None),
        (Think("off"), "disabled"),
        (Think("off", effort="high"), "disabled"),
        (Think("on"), "enabled"),
        (Think("on", effort="minimal"), "low"),
        (Think(effort="medium"), "medium"),
        (Think("auto", effort="max"), "high"),
        (Think(effort="none"), "disabled"),
    ],
)
def test_thinking_is_asked_for_in_the_words_of_a_node(think, sent):
    assert encoded(think=think).body.get("thinking") == sent


@every_row(
    ("fields", "what"),
    [
        ({"sampling": Sampling(top_p=0.5, top_k=3)}, ["sampling.top_p", "sampling.top_k"]),
        ({"sampling": Sampling(seed=1)}, ["sampling.seed"]),
        ({"think": Think("on", budget=100)}, ["think.budget"]),
        ({"output": OutputFormat()}, ["output"]),
        ({"tools": (Tool("t"),)}, ["tools"]),
        ({"extra": {"service_tier": "x"}, "origin": "anthropic"}, ["service_tier"]),
    ],
)
def test_what_a_node_does_not_read_is_a_loss(fields, what):
    assert lost(encoded(**fields)) == what


@pytest.mark.req("CB-09")
def test_the_framing_is_a_quirk_of_the_place():
    outgoing = encoded(Target("x", quirks={"framing": "labelled"}))
    assert outgoing.body["prompt"] == "User:\nhi\n\nAssistant:"


def test_the_configuration_has_the_last_word():
    outgoing = encoded(Target("x", options={"temperature": 1, "thinking": "low"}))
    assert outgoing.body["temperature"] == 1
    assert outgoing.body["thinking"] == "low"


def test_a_last_turn_of_the_assistant_is_not_run_into_the_answer():
    request = Request("m", (*TURNS, Turn("assistant", (Text("I"),))))
    prepared = prepare(request, RULES).request
    assert prepared.turns[-1].role == "user"
