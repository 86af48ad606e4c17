"""Recorded bodies and headers have no secrets, and keep their spelling where they had none."""

from tests.tables import every_row

from toolbridge.core.redaction import Redactor
from toolbridge.explain.recording import redact_body, redact_headers

REDACTOR = Redactor(["geheim123"])


@every_row(
    ("body", "recorded"),
    [
        (b'{ "a" :  1.50, "n": [1,2] }', '{ "a" :  1.50, "n": [1,2] }'),
        (b'{ "api_key" :  "abcdef" }', '{"api_key":"[redacted]"}'),
        (b'{ "a" : "x geheim123" }', '{"a":"x [redacted]"}'),
        (b'{ "a" : "x geheim123"', '{ "a" : "x [redacted]"'),
        (b"words: geheim123", "words: [redacted]"),
        (b"\xff words", "\ufffd words"),
        (b"", ""),
    ],
)
def test_a_body_loses_its_secrets_and_nothing_else(body, recorded):
    assert redact_body(body, REDACTOR) == recorded


def test_headers_are_redacted_by_their_names_and_by_their_values():
    given = [
        ("Authorization", "Bearer x"), ("Cookie", ""), ("x-own", "has geheim123"),
        ("x-ratelimit-remaining-tokens", "5"), ("accept", "*/*"),
    ]  # fmt: skip
    assert redact_headers(given, REDACTOR) == {
        "Authorization": "[redacted]", "Cookie": "", "x-own": "has [redacted]",
        "x-ratelimit-remaining-tokens": "5", "accept": "*/*",
    }  # fmt: skip
