"""What a server says when it refuses, in every envelope that was seen."""

import pytest
from tests.tables import every_row

from toolbridge.wire.rejections import (
    read_error,
    read_overflow,
    read_problem,
    read_rejection,
)

KINDS = {"overloaded_error": "overloaded"}


@every_row(
    ("body", "expected"),
    [
        (b'{"type":"error","error":{"type":"api_error","message":"Oh."}}', ("api_error", "Oh.")),
        (b'{"error":{"message":"Oh.","type":null,"code":400}}', ("", "Oh.")),
        (b'{"error":{"code":404,"message":"Oh.","status":"NOT_FOUND"}}', ("NOT_FOUND", "Oh.")),
        (b'{"error":"Oh."}', ("", "Oh.")),
        (b'{"message":"Oh."}', ("", "Oh.")),
        (b'{"detail":"Oh."}', ("", "Oh.")),
        (b'{"error":{"code":7}}', ("", "")),
        # FastAPI (vLLM) and Mistral
        (
            b'{"detail":[{"loc":["body","x","y"],"msg":"Extra"},{"loc":["z"],"msg":"Bad"},7]}',
            ("", "x.y: Extra; z: Bad"),
        ),
        (
            b'{"message":{"detail":[{"loc":["body"],"msg":"Extra"}]},"type":"invalid"}',
            ("invalid", "Extra"),
        ),
        # OpenRouter
        (
            (
                b'{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\\"error\\":'
                b'{\\"message\\":\\"Oh.\\",\\"type\\":\\"t\\"}}","provider_name":"Azure"}}}'
            ),
            ("t", "Azure: Oh."),
        ),
        (b'{"error":{"message":"Provider returned error","metadata":{"raw":"Oh."}}}', ("", "Oh.")),
        (b'{"error":{"message":"Oh.","metadata":{"raw":"","provider_name":"A"}}}', ("", "Oh.")),
        (b'{"error":{"message":"Oh.","metadata":{"raw":"{\\"a\\":1}"}}}', ("", "Oh.")),
        (b'{"error":7}', ("", "")),
        (b"plain\n  words", ("", "plain words")),
        (b"\xff\xfe", ("", "\ufffd\ufffd")),
        (b"", ("", "")),
    ],
)
def test_every_envelope_is_read(body, expected):
    assert read_error(body) == expected


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            b"<html><title> 502 Bad </title></html>",
            "the provider answered with an HTML page: 502 Bad",
        ),
        (b"<!DOCTYPE html>\n<p>no", "the provider answered with an HTML page: no title"),
    ],
)
def test_a_page_is_told_by_its_title(page, text):
    assert read_error(page) == ("", text)


def test_a_long_text_is_shortened():
    assert len(read_error(b"x" * 100_000)[1]) == 500


@every_row(
    ("status", "type", "kind"),
    [
        (429, "", "rate_limited"),
        (503, "", "overloaded"),
        (529, "", "overloaded"),
        (500, "overloaded_error", "overloaded"),
        (408, "", "timed_out"),
        (504, "", "timed_out"),
        (413, "", "too_large"),
        (400, "", "rejected"),
        (404, "not_found_error", "rejected"),
        (500, "api_error", "rejected"),
        (0, "", "rejected"),
    ],
)
def test_the_type_decides_and_then_the_status(status, type, kind):
    assert read_problem(status, type, "Oh.", KINDS).kind == kind


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_said_to_be_ours(status):
    problem = read_problem(status, "", "bad key", KINDS)
    assert problem.kind == "rejected"
    assert problem.text == "the provider rejected the API key: bad key"


@pytest.mark.req("CL-09")
@every_row(
    ("said", "text"),
    [
        (
            "request (120003 tokens) exceeds the available context size (32768 tokens), try more",
            "prompt is too long: 120003 tokens > 32768 maximum",
        ),
        (
            "maximum context length is 8192 tokens. However, the prompt has at least 8193 tokens",
            "prompt is too long: 8193 tokens > 8192 maximum",
        ),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "prompt is too long: 1200000 tokens > 1048576 maximum",
        ),
        (
            "Your input exceeds the context window of this model.",
            "prompt is too long: Your input exceeds the context window of this model.",
        ),
        ("prompt is too long: 5 tokens > 4 maximum", "prompt is too long: 5 tokens > 4 maximum"),
        (
            "input length and `max_tokens` exceed context limit: 9 + 9 > 10",
            "input length and `max_tokens` exceed context limit: 9 + 9 > 10",
        ),
        ("the model is loading", ""),
    ],
)
def test_an_overflow_is_told_in_the_words_that_clients_know(said, text):
    assert read_overflow(said) == text


def test_an_overflow_is_no_rate_limit():
    body = b'{"error":{"message":"maximum context length is 4 tokens, asked 5"}}'
    assert read_rejection(400, {}, body, KINDS).kind == "context_overflow"
    assert read_rejection(429, {}, body, KINDS).kind == "rate_limited"


def test_a_rejection_keeps_its_status_and_its_wait():
    problem = read_rejection(429, {"Retry-After": "7"}, b"", KINDS)
    assert (problem.kind, problem.status, problem.retry_after) == ("rate_limited", 429, 7.0)
    assert problem.text == "HTTP 429 without an error text"


@pytest.mark.parametrize(
    "text",
    [
        "image input is not supported - hint: you may need to provide the mmproj",
        "audio input is not supported",
        "Failed to parse tools: Missing tool type",
    ],
)
def test_what_a_server_can_never_do_is_the_callers_to_mend(text):
    assert read_problem(500, "server_error", text, KINDS).kind == "unsupported"
    assert read_problem(503, "server_error", text, KINDS).kind == "overloaded"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (("Requested token count exceeds the model's maximum context length of 202752 tokens. You "
         "requested a total of 202941 tokens: 170941 tokens from the input messages and 32000 tokens "
         "for the completion."), "170941 + 32000 > 202752"),
        (("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens "
         "(1000 in the messages, 8000 in the completion). Please reduce"), "1000 + 8000 > 8192"),
        (("'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context "
         "length is 8192 tokens and your request has 1000 input tokens"), "1000 + 8000 > 8192"),
    ],
)  # fmt: skip
def test_an_overflow_of_the_answer_alone_keeps_its_numbers(text, numbers):
    assert f"exceed context limit: {numbers}," in read_overflow(text)


def test_an_overflow_of_the_prompt_is_told_as_such():
    text = (
        "This model's maximum context length is 8192 tokens. However, you requested 9900 tokens "
        "(9000 in the messages, 900 in the completion)."
    )
    assert read_overflow(text) == "prompt is too long: 9900 tokens > 8192 maximum"


@every_row(
    ("status", "text", "kind"),
    [
        (429, "Insufficient balance or no resource package. Please recharge.", "rejected"),
        (429, "Your team has used all available credits", "rejected"),
        (429, "Rate limit reached", "rate_limited"),
        (402, "Insufficient credits", "rejected"),
        (503, "insufficient balance of replicas", "overloaded"),
    ],
)
def test_no_credit_is_no_rate_limit(status, text, kind):
    assert read_problem(status, "", text, {}).kind == kind
