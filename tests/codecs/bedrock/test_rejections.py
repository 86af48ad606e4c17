"""Errors of AWS: the type in a header, and the next step in the text."""

from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.errors import status_of
from toolbridge.policy.retry import is_permanent
from toolbridge.wire.aws_errors import needs_profile

CODEC = codecs.load_target("bedrock")
ON_DEMAND = (
    "Invocation of model ID anthropic.x with on-demand throughput isn\u2019t supported. Retry your "
    "request with the ID or ARN of an inference profile that contains this model."
)


def rejected(status, type, text="no", field="message", **headers):
    body = f'{{"{field}": "{text}"}}'.encode()
    named = {"x-amzn-errortype": f"{type}:http://internal.amazon.com/coral/"} if type else {}
    return CODEC.decode_rejection(status, named | headers, body)


@every_row(
    ("status", "type", "kind", "shown", "permanent", "remedy"),
    [
        (400, "ValidationException", "rejected", 400, True, ""),
        (400, "ServiceQuotaExceededException", "rate_limited", 429, False, ""),
        (403, "AccessDeniedException", "rejected", 403, True, "bedrock:InvokeModel"),
        (403, "ExpiredTokenException", "rejected", 403, True, "aws sso login"),
        (403, "UnrecognizedClientException", "rejected", 403, True, "AWS_ACCESS_KEY_ID"),
        (403, "InvalidSignatureException", "rejected", 403, True, "clock"),
        (404, "ResourceNotFoundException", "rejected", 404, True, "`region`"),
        (408, "ModelTimeoutException", "timed_out", 504, False, ""),
        (424, "ModelErrorException", "broken_call", 502, False, ""),
        (429, "ThrottlingException", "rate_limited", 429, False, ""),
        (429, "ModelNotReadyException", "overloaded", 529, False, ""),
        (500, "InternalServerException", "rejected", 500, False, ""),
        (503, "ServiceUnavailableException", "overloaded", 529, False, ""),
    ],
)  # fmt: skip
def test_types(status, type, kind, shown, permanent, remedy):
    problem = rejected(status, type)
    assert problem.kind == kind
    assert status_of(problem) == shown
    assert is_permanent(problem) is permanent
    assert remedy in problem.text


def test_other_shapes_of_an_error():
    assert rejected(400, "", "why", field="Message").text == "why"
    typed = CODEC.decode_rejection(
        429, {}, b'{"__type": "com.amazon#ThrottlingException", "message": "x"}'
    )
    assert typed.kind == "rate_limited"
    assert rejected(429, "ThrottlingException", **{"retry-after": "3"}).retry_after == 3.0
    assert "HTTP 503" in CODEC.decode_rejection(503, {}, b"").text


def test_a_model_that_needs_a_profile():
    problem = rejected(400, "ValidationException", ON_DEMAND)
    assert needs_profile(problem)
    assert "inference profile" in problem.text.partition("→")[2]
    assert not needs_profile(rejected(400, "ValidationException"))
    assert (
        "`region`"
        in rejected(400, "ValidationException", "The provided model identifier is invalid.").text
    )


def test_an_overflow_has_the_words_that_clients_read():
    problem = rejected(400, "ValidationException", "prompt is too long: 9 tokens > 5 maximum")
    assert problem.kind == "context_overflow"
