"""Secrets out of what is written down, however they are cut."""

import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.json import dumps, loads
from toolbridge.core.messages import Text
from toolbridge.core.redaction import MASK, Redactor, is_secret_name
from toolbridge.core.secret_containers import find_containers
from toolbridge.core.secret_patterns import find_secrets, has_signs

pytestmark = pytest.mark.req("TF-50")

SECRETS = [
    ("my key is sk_test_4eC39HqLyjWD.", "my key is [redacted]."),
    ("sk-ant-api03-abc_DEF", "[redacted]"),
    ("sk-proj-abcdef", "[redacted]"),
    ("(sk_abc)", "([redacted])"),
    ("gsk_abcdefghijklmnop", "[redacted]"),
    ("key=AIzaSyA1234567890abc", "key=[redacted]"),
    ("ghp_abcdefghijklmnop1234", "[redacted]"),
    ("eyJhbGciOi.eyJzdWIiO.SflKxwRJSM", "[redacted]"),
    ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
    ("authorization: Basic dXNlcjpwYXNz\nnext: line", "authorization: [redacted]\nnext: line"),
    ("proxy-authorization=abc", "proxy-authorization=[redacted]"),
    ("Bearer abc.def-1 and more", "Bearer [redacted] and more"),
    ("bearer ABCdef", "bearer [redacted]"),
    ("curl -H 'x-api-key: abc123' x", "curl -H 'x-api-key: [redacted]' x"),
    ("GROQ_API_KEY=abc", "GROQ_API_KEY=[redacted]"),
    ("Ocp-Apim-Subscription-Key: abc", "Ocp-Apim-Subscription-Key: [redacted]"),
    ("DB_PWD=abc", "DB_PWD=[redacted]"),
    ("https://x.org/?q=%20sk-ant-1234567", "https://x.org/?q=%20[redacted]"),
    ("apikey: abc, next", "apikey: [redacted], next"),
    ("password = hunter2; x", "password = [redacted]; x"),
    ('{"api_key": "a b c", "x": 1}', '{"api_key": "[redacted]", "x": 1}'),
    ('{"githubToken":"a\\"b","x":1}', '{"githubToken":"[redacted]","x":1}'),
    ('{"password":1234}', '{"password":"[redacted]"}'),
    ('"{\\"password\\":1234}"', '"{\\"password\\":\\"[redacted]\\"}"'),
    ('{\\"api_key\\": \\"abc\\", \\"x\\": 1}', '{\\"api_key\\": \\"[redacted]\\", \\"x\\": 1}'),
    ('{"token":"a\\\\","b":"c\\\\"}', '{"token":"[redacted]","b":"c\\\\"}'),
    ('{"a":"x\\nsk_live_1"}', '{"a":"x\\n[redacted]"}'),
    ('{"a":"\\u0009Bearer abc123\\n"}', '{"a":"\\u0009Bearer [redacted]\\n"}'),
    ('{"secret": "unfinis', '{"secret": "[redacted]'),
    ("{'token': 'abc'}", "{'token': '[redacted]'}"),
    ("https://ada:pw@example.com/x", "https://[redacted]@example.com/x"),
    ("https://x.org/y?a=1&key=abc&b=2#f", "https://x.org/y?a=1&key=[redacted]&b=2#f"),
    ("x.org/?sig=abc", "x.org/?sig=[redacted]"),
    ("a&auth=abc", "a&auth=[redacted]"),
    ("http://x.org/?access_token=abc def", "http://x.org/?access_token=[redacted] def"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\\nMIIEabc\\n-----END RSA",
        "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA",
    ),
    ('see {"credentials":{"user":"a"}} here', 'see {"credentials":{"user":"[redacted]"}} here'),
    (
        '{"a":"{\\"tokens\\":[],\\"secret\\":[\\"a\\"]}"}',
        '{"a":"{\\"tokens\\":[],\\"secret\\":[\\"[redacted]\\"]}"}',
    ),
    ("the gate code is open-sesame!", "the gate code is [redacted]!"),
    ('{"code":"say \\"open-sesame\\""}', '{"code":"say \\"[redacted]\\""}'),
]
GIVEN = ["open-sesame", "short", 'quo"ted-secret']


@every_row(("text", "expected"), SECRETS)
def test_a_secret_is_redacted(text, expected):
    assert Redactor(GIVEN).text(text) == expected


@every_row(("text", "expected"), SECRETS)
def test_a_text_with_a_secret_is_not_plain(text, expected):
    assert not Redactor(GIVEN).is_plain(text)


@every_row(("text", "expected"), SECRETS)
def test_every_cut_of_a_secret_gives_the_same_text(text, expected):
    redactor = Redactor(GIVEN)
    for at in range(len(text) + 1):
        pieces = redactor.pieces([text[:at], text[at:]])
        assert "".join(pieces) == expected
    assert "".join(redactor.pieces(list(text))) == expected
    for at in range(len(text)):
        for end in range(at, len(text)):
            assert "".join(redactor.pieces([text[:at], text[at:end], text[end:]])) == expected


def test_a_secret_is_masked_where_it_begins_and_gone_from_the_rest():
    pieces = Redactor().pieces(["the key sk", "", "_live_", "12345 is", " old"])
    assert pieces == ["the key [redacted]", "", "", " is", " old"]


@every_row(
    "text",
    [
        "task-force, risk_assessment, desk-1 and disk_2", "sk-learn in sk-SK", "a mask_layer", "pk-a",
        "the bearer of bad news", "Bearer token", "bearer bonds.", "max_tokens: 100, tokens: 5",
        "my token is fine", "the secret of the secretary", '{"token": {"type": "string"}}',
        '{"token": null, "password": true}', '"required": ["token", "password"]', "a password",
        "http://example.com:8080/a@b?monkey=1&page=2", "12:30@noon", "keyboard: english",
        "authorization is required", '{"token": ""}', "shorty",
    ],
)  # fmt: skip
def test_ordinary_words_stay(text):
    assert Redactor(GIVEN).text(text) == text


@every_row(
    ("value", "expected"),
    [
        ({"api_key": "x", "a": 1}, {"api_key": MASK, "a": 1}),
        ({"X-Api-Key": "x", "Authorization": ["Bearer y"]}, {"X-Api-Key": MASK, "Authorization": [MASK]}),
        ({"apiKey": {"value": "x", "n": 5}}, {"apiKey": {"value": MASK, "n": MASK}}),
        ({"password": 1234, "token": None, "secret": True}, {"password": MASK, "token": None, "secret": True}),
        ({"properties": {"password": {"type": "string"}}}, {"properties": {"password": {"type": "string"}}}),
        ({"usage": {"total_tokens": 7, "max_tokens": 9}}, {"usage": {"total_tokens": 7, "max_tokens": 9}}),
        ({"password": ""}, {"password": ""}),
        ({"sk_live_123456": 1}, {MASK: 1}),
        ([["see sk_live_123456"]], [["see " + MASK]]),
        (5, 5),
        (("see sk_live_123456", {"password": ("hunter2",)}), ["see " + MASK, {"password": [MASK]}]),
        ({"a": frozenset({"sk_live_123456"})}, {"a": [MASK]}),
        ({"a": b"sk_live_123456", "token": b"x"}, {"a": MASK, "token": MASK}),
        (Text("sk_live_123456", citations=({"secret": "hunter2"},)), {"type": "text", "text": MASK, "citations": [{"secret": MASK}]}),
        ({"a": Path("/sk_live_123456")}, {"a": "/" + MASK}),
        ({"api_key": {"type": "string", "default": "x", "enum": ["y"]}}, {"api_key": {"type": "string", "default": MASK, "enum": [MASK]}}),
        ({"token": {"type": "bearer", "value": "hunter2"}}, {"token": {"type": MASK, "value": MASK}}),
        ({"name": "X-Api-Key", "value": "hunter2"}, {"name": "X-Api-Key", "value": MASK}),
        ({"name": "weight", "value": "hunter2"}, {"name": "weight", "value": "hunter2"}),
        ({"said": '{"password":["hunter2"]}'}, {"said": '{"password":["[redacted]"]}'}),
        ({"said": '{"a":"{\\"secrets\\":{\\"x\\":\\"hunter2\\"}}"}'}, {"said": '{"a":"{\\"secrets\\":{\\"x\\":\\"[redacted]\\"}}"}'}),
        ({("sk_live_123456", 1): 2}, {"('[redacted]', 1)": 2}),
    ],
)  # fmt: skip
def test_a_member_is_redacted_by_its_name(value, expected):
    assert Redactor().value(value) == expected


@every_row(
    ("name", "expected"),
    [
        ("token", True), ("accessToken", True), ("github_token", True), ("AWS_SECRET_ACCESS_KEY", True),
        ("set-cookie", True), ("client_secret", True), ("tokens", False), ("token_count", False),
        ("secretary", False), ("keyboard", False), ("key", False), ("", False),
    ],
)  # fmt: skip
def test_names_that_hold_secrets(name, expected):
    assert is_secret_name(name) is expected


ALPHABET = st.text(st.sampled_from("sk_-1aB:=\"'\\ \n/@?&.[]redacted{},"), max_size=60)
WORDS = st.sampled_from(
    ["sk_", "sk-", "token", "api_key", '"', '\\"', ":", "=", "Bearer ", "://", "@", "?key=", MASK,
     "abc123", " ", "\n", "open-sesame", "gsk_", "x" * 13, "null", "{", "password", "'", "\\"]
)  # fmt: skip
TEXTS = ALPHABET | st.lists(WORDS, max_size=20).map("".join)


def test_a_private_key_is_masked_over_its_lines():
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nIBADAN==\n-----END PRIVATE KEY-----"
    masked = "-----BEGIN PRIVATE KEY-----[redacted]-----END PRIVATE KEY-----"
    assert Redactor().text(f"a {key} b {key}") == f"a {masked} b {masked}"
    assert Redactor().text(f"a {key[:40]}") == "a -----BEGIN PRIVATE KEY-----[redacted]"
    public = "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----"
    assert Redactor().text(public) == public


@every_row(
    ("data", "expected"),
    [
        (b'{"token": "hunter2"}', b'{"token":"[redacted]"}'),
        (b"\xff sk_live_123456", "\ufffd [redacted]".encode()),
        (msgspec.msgpack.encode([1, "n", b'{"token":"hunter2"}']), msgspec.msgpack.encode([1, "n", b'{"token":"[redacted]"}'])),
        (msgspec.msgpack.encode({"n": 5, "token": "hunter2"}), msgspec.msgpack.encode({"n": 5, "token": MASK})),
    ],
)  # fmt: skip
def test_encoded_values_keep_their_format(data, expected):
    assert Redactor().encoded(data) == expected


def test_members_of_json_in_pieces_are_redacted_by_their_names():
    pieces = ['{"passw', 'ords":{"a":"hun', 'ter2"},"b":1}']
    assert "".join(Redactor().json_pieces(pieces)) == '{"passwords":{"a":"[redacted]"},"b":1}'
    assert Redactor().json_pieces(['{"a"', ":1}"]) == ['{"a"', ":1}"]


def test_no_depth_is_too_deep():
    value: object = "sk_live_123456"
    for _ in range(5000):
        value = [value]
    assert "sk_live" not in str(Redactor().value(value))


@given(TEXTS, TEXTS)
def test_texts_without_signs_have_no_secret_side_by_side(first, second):
    texts = [text for text in (first, second, "plain") if not has_signs(text)]
    line = dumps([*texts, {text: text for text in texts}])
    assert not list(find_secrets(line))
    assert not list(find_containers(line, lambda _: "changed", lines=True))


@given(TEXTS)
def test_redacting_twice_changes_nothing_more(text):
    once = Redactor(GIVEN).text(text)
    assert Redactor(GIVEN).text(once) == once


@given(TEXTS, st.lists(st.integers(0, 60), max_size=6))
def test_pieces_join_to_the_redacted_whole(text, cuts):
    marks = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(marks)]
    redacted = Redactor(GIVEN).pieces(pieces)
    assert len(redacted) == len(pieces)
    assert "".join(redacted) == Redactor(GIVEN).text(text)


@given(TEXTS, TEXTS)
def test_lines_are_redacted_one_by_one(first, second):
    both = Redactor(GIVEN).text(f"{first}\n{second}")
    assert both == f"{Redactor(GIVEN).text(first)}\n{Redactor(GIVEN).text(second)}"


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-99, 99)
        | st.text(st.sampled_from("a\\\"' "), max_size=8),
        lambda inner: (
            st.dictionaries(st.sampled_from(["a", "token", "type", "password"]), inner)
            | st.lists(inner, max_size=3)
        ),
        max_leaves=12,
    )
)
def test_json_stays_json_when_it_is_redacted_as_text(value):
    assert loads(Redactor().text(dumps(value))) is not NotImplemented


@every_row(
    "unit",
    [
        "sk_", "sk-", "token=", 'token="', "token='", 'token=\\"', "a://b:", "://", "bearer ", "?key=",
        '"token":', "eyJaaaaaaaa.", "password", "\\", '"', "gsk_", "word ", "api-key: \\\\\\\\", "[redacted]",
        "x", "sk_x\n", '"token":[', '{"token":', '{\\"token\\":', '"token":{"a":1},', "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----a", "-",
    ],
)  # fmt: skip
def test_no_text_takes_more_than_linear_time(unit):
    def took(n):
        text = unit * (n // len(unit))
        started = time.thread_time()  # the machine may be busy with something else
        Redactor().text(text)
        return time.thread_time() - started

    # What grows with the square takes 64 times as long. A busy machine may disturb one trial.
    assert any(took(64_000) < 32 * took(8_000) + 0.05 for _ in range(3))
