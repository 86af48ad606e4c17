"""Embedding requests of Gemini's API."""

import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.gemini.embeddings import decode_batch_request, decode_embedding_request
from toolbridge.core.errors import MalformedRequest


def asked(text: str, **fields) -> dict:
    return {"content": {"parts": [{"text": text}]}, **fields}


def batch(*requests) -> bytes:
    return json.dumps({"requests": list(requests)}).encode()


def test_one_text_is_decoded():
    request = decode_embedding_request(json.dumps(asked("a")).encode(), "m")
    assert (request.model, request.inputs) == ("m", ("a",))


def test_a_batch_has_its_texts_in_order():
    request = decode_batch_request(batch(asked("a"), asked("b")), "m")
    assert (request.model, request.inputs) == ("m", ("a", "b"))


@every_row(
    ("body", "where"),
    [
        (b"{}", "requests"),
        (b'{"requests": {}}', "requests"),
        (batch(), "requests"),
        (batch(asked("a"), 5), "requests.1"),
        (batch(asked("a"), {"content": {"parts": 1}}), "requests.1"),
        (batch(asked("a"), asked("b", taskType="CLUSTERING")), "requests.1"),
    ],
)
def test_a_malformed_batch_names_the_place(body, where):
    with pytest.raises(MalformedRequest) as raised:
        decode_batch_request(body, "m")
    assert raised.value.problem.where.startswith(where)


def test_names_with_underscores_and_settings_in_an_object_are_read():
    camel = {"taskType": "CLUSTERING", "outputDimensionality": 5}
    snake = {"task_type": "CLUSTERING", "output_dimensionality": 5}
    forms = (camel, snake, {"embedContentConfig": camel}, {"embed_content_config": snake})
    found = [decode_embedding_request(json.dumps(asked("a", **f)).encode(), "m") for f in forms]
    assert found == [found[0]] * 4
    assert found[0].dimensions == 5
