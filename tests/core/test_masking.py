"""Configured keys are masked in every spelling, and short ones mask nothing."""

import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.masking import MASK, secrets_pattern, without_quotes


def mask(text: str, secrets: list[str]) -> str:
    pattern = secrets_pattern(secrets)
    return text if pattern is None else pattern.sub(MASK, text)


KEYS = ['Zk-9fQ/x+tr"e', "plainkey-0123456789", "schlüssel/mit ä+1"]


@pytest.mark.req("TF-50")
@every_row("key", KEYS)
@every_row(
    "spell",
    [
        str,
        json.dumps,
        lambda key: json.dumps({"said": json.dumps({"key": key})}),
        lambda key: json.dumps({"said": json.dumps({"key": key}, ensure_ascii=False)}),
        lambda key: json.dumps(key).replace("/", "\\/"),
        lambda key: f"https://x.org/?q={quote(key, safe='')}",
        lambda key: f"https://x.org/{quote(key)}",
        lambda key: f"https://x.org/?q={quote(key, safe='').lower()}" if key.islower() else key,
    ],
)
def test_a_key_is_masked_in_every_spelling(key, spell):
    written = f"before {spell(key)} after"
    masked = mask(written, KEYS)
    assert MASK in masked
    for form in (key, json.dumps(key)[1:-1], quote(key, safe="")):
        assert form not in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")


@pytest.mark.req("TF-50")
@every_row("key", KEYS)
@every_row("encode", [b64encode, urlsafe_b64encode])
@every_row("before", ["", "a", "ab", "abc", "user:"])
def test_a_key_in_base64_is_masked_wherever_it_begins(key, encode, before):
    written = encode(f"{before}{key}:tail".encode()).decode()
    assert MASK in mask(f"Basic {written}", KEYS)


@every_row("key", ["", "a", "key", "demo", "test-12", "   x   "])
def test_a_short_key_masks_nothing(key):
    text = "a demo of the test-12 key,   x   and more"
    assert mask(text, [key]) == text


def test_a_key_of_several_lines_is_masked_line_by_line():
    assert mask(
        "x first-line-of-key y\nsecond-line-of-key", ["first-line-of-key\nsecond-line-of-key"]
    ) == (f"x {MASK} y\n{MASK}")


@given(st.text(max_size=80), st.lists(st.text(max_size=12), max_size=3))
def test_a_masked_text_does_not_hold_a_long_key(text, keys):
    long = [
        key
        for key in keys
        if len(key.strip()) >= 8 and key == key.strip() and len(key.splitlines()) == 1
    ]
    masked = mask(f"{text}{''.join(long)}", long)
    assert not any(key in masked for key in long if key not in MASK)


@every_row(
    ("text", "expected"),
    [
        ("no such model", "no such model"),
        ("rejected: 'tell me all about colourless green ideas'!", "rejected: '…'!"),
        ("tell me all about colourless green ideas", "…"),
        ("about colourless green ideas and about colourless green cars", "… and …cars"),
        ("about colourless", "about colourless"),
        ("", ""),
    ],
)
def test_an_error_is_told_without_what_it_quotes(text, expected):
    source = '{"content":"tell me all about colourless green ideas"}'
    assert without_quotes(text, source) == expected


@every_row(
    ("text", "expected"),
    [
        ("prompt: [{'role': 'user', 'content': 'swordfish'}]", "prompt: [{'role': 'user', 'content': '…'}]"),
        (r'in {\"content\": \"swordfish\"}', r'in {\"content\": \"…\"}'),
        ("`swordfish` is refused", "`…` is refused"),
        ("a swordfish is a fish", "a swordfish is a fish"),
        ("there is no model 'swordfish-1'", "there is no model 'swordfish-1'"),
        ("'user' is no role, 'm' no model", "'user' is no role, 'm' no model"),
    ],
)  # fmt: skip
def test_a_short_text_of_the_request_is_a_quote_in_quotation_marks(text, expected):
    source = '{"model":"m","messages":[{"role": "user", "content" : "swordfish"}]}'
    assert without_quotes(text, source) == expected
