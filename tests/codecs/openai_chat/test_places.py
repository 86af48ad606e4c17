"""Every place that speaks this API gets a body that says the same when it is read and sent again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.strategies import requests

from toolbridge import providers
from toolbridge.codecs.openai_chat.decode_request import decode_request
from toolbridge.codecs.openai_chat.encode_request import encode_request
from toolbridge.core.codec import Target
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import Call, Thinking

PLACES = [name for name in providers.names() if providers.load(name).api == "openai_chat"]


def sent(name, request):
    return encode_request(request, Target(request.model, quirks=providers.load(name).quirks)).body


@pytest.mark.parametrize("name", PLACES)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_a_request_that_was_read_is_sent_as_it_was(name, data):
    first = sent(name, data.draw(requests(origin="openai_chat")))
    assert sent(name, decode_request(dump_bytes(first))) == first


@pytest.mark.parametrize("name", PLACES)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_a_request_of_another_api_keeps_its_calls_and_its_thoughts_where_they_are_wanted(
    name, data
):
    request = data.draw(requests(origin="anthropic"))
    back = decode_request(dump_bytes(sent(name, request)))
    parts = [part for turn in request.turns for part in turn.content]
    found = [part for turn in back.turns for part in turn.content]
    asked = [(c.name, c.arguments) for c in parts if isinstance(c, Call)]
    assert [(c.name, c.arguments) for c in found if isinstance(c, Call)] == asked
    if providers.load(name).quirks.get("thinking_field"):
        thought = "".join(t.text for t in parts if isinstance(t, Thinking))
        assert "".join(t.text for t in found if isinstance(t, Thinking)) == thought
