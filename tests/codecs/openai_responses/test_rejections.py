import json

import pytest
from tests.codecs.openai_responses import recordings
from tests.tables import every_row

from toolbridge.codecs.openai_responses.rejections import decode_rejection, encode_rejection
from toolbridge.core.messages import Problem


@pytest.mark.req("CL-09")
@every_row(
    ("status", "error", "kind"),
    [
        (400, {"code": "context_length_exceeded", "message": "exceeds the context window of this model"}, "context_overflow"),
        (404, {"code": "model_not_found", "type": "invalid_request_error", "message": "x"}, "unknown_model"),
        (429, {"code": "insufficient_quota", "type": "insufficient_quota", "message": "x"}, "rejected"),
        (429, {"code": "rate_limit_exceeded", "type": "requests", "message": "x"}, "rate_limited"),
        (503, {"code": None, "type": "server_error", "message": "x"}, "overloaded"),
        (400, {"type": "invalid_request_error", "message": "x"}, "rejected"),
    ],
)  # fmt: skip
def test_a_rejection_says_what_to_do(status, error, kind):
    problem = decode_rejection(status, {"retry-after": "2"}, json.dumps({"error": error}).encode())
    assert problem.kind == kind
    assert problem.status == status
    assert problem.retry_after == 2.0


def test_a_recorded_rejection_has_its_words():
    recording = recordings.read("vllm/resp_err_model")
    problem = decode_rejection(recording.status, {}, recording.body)
    assert problem.status == 404
    assert "does not exist" in problem.text


def test_a_rejection_that_is_a_page_is_read():
    assert decode_rejection(502, {}, b"<html><title>Bad</title>").text.startswith(
        "the provider answered with an HTML page"
    )


@pytest.mark.req("CL-09")
@every_row(
    ("problem", "status", "type", "code", "headers"),
    [
        (Problem("overloaded", "busy"), 503, "server_error", "server_is_overloaded", {"retry-after": "5"}),
        (Problem("rate_limited", "x", retry_after=1.2), 429, "requests", "rate_limit_exceeded", {"retry-after": "2"}),
        (Problem("unknown_model", "x"), 404, "invalid_request_error", "model_not_found", {"x-should-retry": "false"}),
        (Problem("rejected", "x", status=402), 402, "invalid_request_error", None, {"x-should-retry": "false"}),
        (Problem("rejected", "x"), 502, "server_error", None, {}),
        (Problem("unauthenticated", "x"), 401, "invalid_request_error", "invalid_api_key", {"x-should-retry": "false"}),
    ],
)  # fmt: skip
def test_a_rejection_is_in_the_envelope_of_the_api(problem, status, type, code, headers):
    rejection = encode_rejection(problem, "req_1")
    error = json.loads(rejection.body)["error"]
    assert rejection.status == status
    assert (error["type"], error["code"], error["param"]) == (type, code, None)
    assert rejection.headers == headers | {"x-request-id": "req_1"}


def test_a_rejection_names_the_fault():
    rejection = encode_rejection(Problem("malformed_request", "field required", where="input"), "")
    error = json.loads(rejection.body)["error"]
    assert (error["param"], error["message"]) == ("input", "input: field required")
