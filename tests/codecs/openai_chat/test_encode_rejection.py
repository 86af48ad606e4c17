import pytest

from toolbridge.codecs.openai_chat.encode_rejection import encode_rejection
from toolbridge.core.errors import KINDS
from toolbridge.core.json import loads
from toolbridge.core.messages import Problem


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("kind", sorted(KINDS))
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
