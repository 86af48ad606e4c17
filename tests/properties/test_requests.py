"""The laws of requests, over every codec."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.properties.frames import mutations, swapped, with_strangers
from tests.properties.losses import losses_of, without, without_changed
from tests.properties.subjects import EXAMPLES, every_codec
from tests.strategies import requests

from toolbridge.core.codec import Target
from toolbridge.core.errors import ClientError
from toolbridge.core.json import dump_bytes, loads
from toolbridge.core.messages import Loss

lawful = settings(max_examples=examples(EXAMPLES))


def outgoing(codec, request):
    return codec.encode_request(request, Target(model=request.model))


def lost(request, sent):
    """What was reported as lost, and the stop sequences that are left to whoever reads the answer."""
    left = (Loss(f"stop.{n}", "left") for n, stop in enumerate(request.stop) if stop in sent.stops)
    return (*sent.losses, *left)


def incoming(codec, request, body):
    """`body`, read as a server of the API would; model and stream from the path where it has them."""
    return codec.decode_request(
        dump_bytes(body),
        model="" if "model" in body else request.model,
        stream=None if "stream" in body else request.stream,
    )


@every_codec
@lawful
@given(data=st.data())
def test_a_request_comes_back_as_it_went_out(codec, data):
    request = data.draw(requests(origin=codec.name))
    sent = outgoing(codec, request)
    back = without_changed(incoming(codec, request, sent.body), sent.losses)
    settle = losses_of(codec.name).request
    assert settle(back, request) == settle(without(request, lost(request, sent)), request)


@every_codec
@lawful
@given(data=st.data())
def test_a_second_trip_loses_nothing_more(codec, data):
    request = data.draw(requests(origin=codec.name))
    once = incoming(codec, request, outgoing(codec, request).body)
    sent = outgoing(codec, once)
    back = without_changed(incoming(codec, once, sent.body), sent.losses)
    assert back == without(once, lost(once, sent))


@every_codec
@lawful
@given(data=st.data())
def test_losses_have_a_place_and_a_reason(codec, data):
    request = data.draw(requests(origin="elsewhere"))
    for loss in outgoing(codec, request).losses:
        assert loss.why
        without(request, (loss,))


@every_codec
@lawful
@given(data=st.data())
def test_the_same_request_is_the_same_bytes(codec, data):
    request = data.draw(requests(origin=codec.name))
    again = msgspec.json.decode(msgspec.json.encode(request), type=type(request))
    assert dump_bytes(outgoing(codec, request).body) == dump_bytes(outgoing(codec, again).body)


@every_codec
@lawful
@given(data=st.data())
def test_a_mutated_request_is_read_or_refused(codec, data):
    request = data.draw(requests(origin=codec.name))
    body = data.draw(mutations(dump_bytes(outgoing(codec, request).body)))
    read_or_refuse(codec, body)


@every_codec
@lawful
@given(data=st.data())
def test_a_request_with_swapped_values_is_read_or_refused(codec, data):
    request = data.draw(requests(origin=codec.name))
    body = data.draw(swapped(outgoing(codec, request).body))
    read_or_refuse(codec, dump_bytes(body))


def read_or_refuse(codec, body):
    """Read `body`, or get a refusal that can be told; any other error fails the test."""
    try:
        request = codec.decode_request(body, model="m", stream=False)
    except ClientError as error:
        dump_bytes(error.problem)
        return
    dump_bytes(request)
    dump_bytes(outgoing(codec, request).body)


@every_codec
@pytest.mark.req("CL-02")
@lawful
@given(data=st.data())
def test_unknown_fields_of_a_request_are_never_refused(codec, data):
    request = data.draw(requests(origin=codec.name))
    body = outgoing(codec, request).body
    incoming(codec, request, loads(dump_bytes(with_strangers(body))))
