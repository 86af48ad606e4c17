import json

import pytest
from tests.codecs.openai_chat import recordings

from toolbridge.codecs.openai_chat.decode_rejection import decode_rejection

TOO_LONG = {
    "llamacpp/err_toolong": "prompt is too long: 120003 tokens > 32768 maximum",
    "llamacpp/err_toolong_stream": "prompt is too long: 120003 tokens > 32768 maximum",
    "vllm/err_toolong": "prompt is too long: 8193 tokens > 8192 maximum",
    "vllm/err_toolong_stream": "prompt is too long: 8193 tokens > 8192 maximum",
}


@pytest.mark.parametrize("recording", recordings.REJECTIONS, ids=lambda recording: recording.name)
def test_a_recorded_rejection_has_its_status_and_its_words(recording):
    problem = decode_rejection(recording.status, recording.headers, recording.body)
    assert problem.status == recording.status
    assert problem.text
    assert (problem.kind == "context_overflow") == (recording.name in TOO_LONG)


@pytest.mark.parametrize(("name", "text"), TOO_LONG.items())
def test_a_prompt_that_is_too_long_is_told_in_words_that_clients_know(name, text):
    recording = recordings.read(name)
    assert decode_rejection(recording.status, {}, recording.body).text == text


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"message": "Too many.", "code": "context_length_exceeded"}, "context_overflow"),
        (400, {"message": "no", "type": "invalid_request_error"}, "rejected"),
        (401, {"message": "no", "code": "invalid_api_key"}, "rejected"),
        (404, {"message": "no", "code": "model_not_found"}, "unknown_model"),
        (404, {"message": "no", "param": "model"}, "unknown_model"),
        (404, {"message": "no"}, "rejected"),
        (413, {"message": "no"}, "too_large"),
        (429, {"message": "no", "type": "tokens", "code": "rate_limit_exceeded"}, "rate_limited"),
        (429, {"message": "no"}, "rate_limited"),
        (429, {"message": "no", "type": "insufficient_quota"}, "rejected"),
        (500, {"message": "no", "type": "server_error"}, "rejected"),
        (503, {"message": "Loading model"}, "overloaded"),
        (504, {"message": "no"}, "timed_out"),
    ],
)
def test_an_error_says_what_to_do(status, error, kind):
    problem = decode_rejection(status, {}, json.dumps({"error": error}).encode())
    assert (problem.kind, problem.status) == (kind, status)


def test_an_overflow_without_numbers_keeps_its_words():
    body = {"error": {"message": "Too many.", "code": "context_length_exceeded"}}
    problem = decode_rejection(400, {}, json.dumps(body).encode())
    assert problem.text == "prompt is too long: Too many."


def test_a_server_says_how_long_to_wait():
    assert decode_rejection(429, {"Retry-After": "7"}, b"{}").retry_after == 7.0


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error":"{\\"error\\":{\\"message\\":\\"inner\\"}}"}', "inner"),
        (b'{"error":"{half"}', "{half"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b"", "HTTP 502 without a word"),
        (
            b"<html><title>Bad gateway</title></html>",
            "the provider answered with an HTML page: Bad gateway",
        ),
    ],
)
def test_whatever_the_envelope_the_words_are_found(body, text):
    assert decode_rejection(502, {}, body).text == text
