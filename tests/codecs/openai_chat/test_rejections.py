import json

import pytest
from tests.codecs.openai_chat import recordings
from tests.tables import every_row

from toolbridge.codecs.openai_chat.rejections import decode_rejection, encode_rejection
from toolbridge.core.errors import KINDS
from toolbridge.core.json import loads
from toolbridge.core.messages import Problem

TOO_LONG = {
    "llamacpp/err_toolong": "prompt is too long: 120003 tokens > 32768 maximum",
    "llamacpp/err_toolong_stream": "prompt is too long: 120003 tokens > 32768 maximum",
    "vllm/err_toolong": "prompt is too long: 8193 tokens > 8192 maximum",
    "vllm/err_toolong_stream": "prompt is too long: 8193 tokens > 8192 maximum",
}


@every_row("recording", recordings.REJECTIONS, ids=lambda recording: recording.name)
def test_a_recorded_rejection_has_its_status_and_its_words(recording):
    problem = decode_rejection(recording.status, recording.headers, recording.body)
    assert problem.status == recording.status
    assert problem.text
    assert (problem.kind == "context_overflow") == (recording.name in TOO_LONG)


@every_row(("name", "text"), TOO_LONG.items())
def test_a_prompt_that_is_too_long_is_told_in_words_that_clients_know(name, text):
    recording = recordings.read(name)
    assert decode_rejection(recording.status, {}, recording.body).text == text


@every_row(
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


@every_row(
    ("body", "text"),
    [
        (b'{"error":"{\\"error\\":{\\"message\\":\\"inner\\"}}"}', "inner"),
        (b'{"error":"{half"}', "{half"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b"", "HTTP 502 without an error text"),
        (
            b"<html><title>Bad gateway</title></html>",
            "the provider answered with an HTML page: Bad gateway",
        ),
    ],
)
def test_whatever_the_envelope_the_words_are_found(body, text):
    assert decode_rejection(502, {}, body).text == text


@every_row(
    ("problem", "status", "type", "code"),
    [
        (Problem("malformed_request", "no"), 400, "invalid_request_error", None),
        (
            Problem("context_overflow", "no"),
            400,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (Problem("unknown_model", "no"), 404, "invalid_request_error", "model_not_found"),
        (Problem("unauthenticated", "no"), 401, "invalid_request_error", "invalid_api_key"),
        (Problem("not_allowed", "no"), 403, "permission_error", None),
        (Problem("too_large", "no"), 413, "invalid_request_error", "request_too_large"),
        (Problem("rate_limited", "no"), 429, "requests", "rate_limit_exceeded"),
        (Problem("overloaded", "no"), 503, "server_error", "overloaded"),
        (Problem("overloaded", "no", status=529), 503, "server_error", "overloaded"),
        (Problem("timed_out", "no"), 504, "server_error", "timeout"),
        (Problem("rejected", "no", status=402), 402, "invalid_request_error", None),
        (Problem("rejected", "no", status=429), 429, "insufficient_quota", "insufficient_quota"),
        (Problem("rejected", "no", status=500), 500, "server_error", None),
        (Problem("rejected", "no", status=529), 503, "server_error", None),
        (Problem("unreachable", "no"), 502, "server_error", None),
    ],
)
def test_a_problem_has_its_status_type_and_code(problem, status, type, code):
    rejection = encode_rejection(problem, "req_1")
    assert rejection.status == status
    assert loads(rejection.body) == {
        "error": {"message": "no", "type": type, "param": None, "code": code}
    }


@every_row("kind", sorted(KINDS))
def test_every_problem_can_be_told(kind):
    rejection = encode_rejection(Problem(kind, "no", where="messages.0.role"), "req_1")
    error = loads(rejection.body)["error"]
    assert rejection.status >= 400
    assert error["param"] == "messages.0.role"
    assert error["message"] == "messages.0.role: no"
    assert rejection.headers["x-request-id"] == "req_1"


def test_a_client_is_told_how_long_to_wait():
    problem = Problem("rate_limited", "no", retry_after=1.2)
    assert encode_rejection(problem, "r").headers["retry-after"] == "2"


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (Problem("rejected", "no", status=429), "false"),
        (Problem("config", "no"), "false"),
        (Problem("rate_limited", "no"), None),
    ],
)
def test_a_client_is_told_where_asking_again_is_of_no_use(problem, says):
    assert encode_rejection(problem, "r").headers.get("x-should-retry") == says
