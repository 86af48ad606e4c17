"""Computations in steps: taken at once or one by one, the result is the same."""

import json

import pytest
from tests.properties.request_bodies import BODIES
from tests.properties.test_tool_schemas import APIS

from toolbridge import codecs
from toolbridge.core.codec import Target
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.steps import finish, steps_of, stepwise
from toolbridge.translate import RequestOptions, plan

TARGETS = (*APIS, "bedrock")


@stepwise
def total(numbers):
    """Add numbers."""
    added = 0
    for number in numbers:
        added += number
        yield
    return added


def counted(steps):
    """Return the result of some steps, and how often they paused."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def test_steps_are_taken_at_once_or_one_by_one():
    assert total([1, 2, 3]) == 6
    assert counted(total.steps([1, 2, 3])) == (6, 3)
    assert total.__doc__ == "Add numbers."


def test_a_function_without_steps_is_one_step():
    assert counted(steps_of(sum, [1, 2])) == (3, 0)
    assert counted(steps_of(total, [1, 2])) == (3, 2)


def test_an_error_ends_the_steps():
    with pytest.raises(TypeError):
        finish(total.steps([1, "2"]))


@pytest.mark.parametrize("api", APIS)
def test_a_request_pauses_for_each_message_and_each_pass(api):
    body = json.dumps(BODIES[api]).encode()
    codec = codecs.load(api)
    request, pauses = counted(codec.decode_request.steps(body, model="m"))
    assert pauses >= len(request.turns)
    assert request == codec.decode_request(body, model="m")
    for target in TARGETS:
        encoder = codecs.load_target(target)
        given = (request, encoder, Target(model="m"), RequestOptions())
        ready, pauses = counted(plan.steps(*given))
        assert pauses >= len(ready.request.turns) + 4
        assert ready.outgoing == plan(*given).outgoing


def test_a_malformed_message_is_reported_when_its_step_is_taken():
    messages = [{"role": "user", "content": "hi"}, {"role": "user", "content": 1}]
    body = json.dumps({"model": "m", "max_tokens": 1, "messages": messages}).encode()
    steps = codecs.load("anthropic").decode_request.steps(body)
    next(steps)
    with pytest.raises(MalformedRequest) as failed:
        next(steps)
    assert failed.value.problem.where == "messages.1.content"
