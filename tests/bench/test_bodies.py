"""The bodies of the benchmarks are requests that a gateway accepts, of the sizes that are named."""

import json

import pytest

from bench import bodies
from toolbridge import codecs
from toolbridge.core.messages import Call, Result

ANTHROPIC = codecs.load("anthropic")


@pytest.mark.parametrize("size", bodies.SIZES[1:])
def test_an_agents_turn_has_its_size_and_is_valid(size):
    body = bodies.agent(size, seed="a")
    assert len(body) == pytest.approx(size * 1000, rel=0.02)
    request = ANTHROPIC.decode_request(body)
    assert len(request.tools) == 15
    parts = [part for turn in request.turns for part in turn.content]
    calls = [part.id for part in parts if isinstance(part, Call)]
    assert calls, "an agent's history has calls"
    assert [part.call_id for part in parts if isinstance(part, Result)] == calls


def test_the_smallest_turn_is_below_3_kb():
    body = bodies.agent(2, seed="a")
    assert 1500 < len(body) < 3000
    assert ANTHROPIC.decode_request(body).tools


def test_a_later_turn_repeats_the_session_and_adds_to_it():
    first, later = (json.loads(bodies.agent(48, seed="a", more_turns=n)) for n in (0, 2))
    assert later["system"] == first["system"]
    assert later["tools"] == first["tools"]
    history = first["messages"][:-1]
    assert later["messages"][: len(history)] == history
    assert len(later["messages"]) == len(history) + 5


def test_another_session_shares_no_text():
    first, other = (json.loads(bodies.agent(48, seed=seed)) for seed in "ab")
    texts = [{block["text"] for block in body["system"]} for body in (first, other)]
    assert not texts[0] & texts[1]
    assert bodies.agent(48, seed="a") == bodies.agent(48, seed="a")


def test_every_body_has_one_place_for_its_number():
    made = [bodies.plain(stream=True, tools=60), bodies.agent(48, seed="a"), bodies.structured()]
    assert [body.count(bodies.NUMBER.encode()) for body in made] == [1, 1, 1]
    assert len(json.loads(made[0])["tools"]) == 60
