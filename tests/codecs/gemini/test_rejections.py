import json

from tests.tables import every_row

from toolbridge.codecs.gemini.rejections import decode_rejection


def status(code, name, text, *details):
    return {"error": {"code": code, "message": text, "status": name, "details": list(details)}}


def read(number, body, headers=None):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode_rejection(number, headers or {}, data)


@every_row(
    ("number", "name", "kind"),
    [
        (400, "INVALID_ARGUMENT", "rejected"),
        (403, "PERMISSION_DENIED", "rejected"),
        (404, "NOT_FOUND", "rejected"),
        (429, "RESOURCE_EXHAUSTED", "rate_limited"),
        (500, "INTERNAL", "rejected"),
        (503, "UNAVAILABLE", "overloaded"),
        (504, "DEADLINE_EXCEEDED", "timed_out"),
    ],
)
def test_names_of_statuses(number, name, kind):
    problem = read(number, status(number, name, "why"))
    assert (problem.kind, problem.status) == (kind, number)
    assert "why" in problem.text


def test_a_body_may_be_wrapped_in_an_array():
    assert read(404, [status(404, "NOT_FOUND", "no model")]).text == "no model"


def test_a_bad_key_is_said_to_be_one():
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    problem = read(400, status(400, "INVALID_ARGUMENT", "API key not valid.", detail))
    assert problem.kind == "rejected"
    assert "rejected the API key" in problem.text


@every_row(
    ("delay", "seconds"),
    [("33s", 33), ("0.5s", 0.5), ("33", None), ("", None), (5, None), ("99999999999s", None)],
)
def test_how_long_to_wait_stands_in_the_details(delay, seconds):
    problem = read(429, status(429, "RESOURCE_EXHAUSTED", "x", 7, {"retryDelay": delay}))
    assert problem.retry_after == seconds


def test_a_header_says_it_first():
    body = status(429, "RESOURCE_EXHAUSTED", "x", {"retryDelay": "9s"})
    assert read(429, body, {"Retry-After": "3"}).retry_after == 3


@every_row(
    ("number", "body", "text"),
    [
        (502, b"<html><title>Bad gateway</title></html>", "the provider answered with an HTML page: Bad gateway"),
        (500, b"", "HTTP 500 without an error text"),
        (500, b"[]", "[]"),
        (400, {"error": "plain"}, "plain"),
        (400, {"error": {"message": "m", "details": 5}}, "m"),
    ],
)  # fmt: skip
def test_other_shapes_are_read_as_well(number, body, text):
    assert read(number, body).text == text
