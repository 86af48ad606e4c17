"""Entries of a log without secrets."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbridge.core.redaction import Redactor
from toolbridge.store.masked import masked

GIVEN = "correct-horse-battery"
_SECRETS = [
    "sk-ant-api03-abcdefghijklmnopqrstuvwxyz012345", "hunter2hunter2", "Bearer abcdefgh12345678",
    "https://user:secretword@host/x?token=abcdef123456", GIVEN, "-----BEGIN PRIVATE KEY-----",
]  # fmt: skip
_NAMES = ["password", "apiKey", "x-api-key", "authorization", "text", "chunk", "id", "n", "value"]
_texts = st.sampled_from([*_SECRETS, "plain words", "é\n\\", "", "sk-", "max_tokens"])
_values = st.recursive(
    _texts | st.integers(0, 99) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)
_entries = st.one_of(
    _values.map(msgspec.json.encode),
    _values.map(lambda value: json.dumps(value, indent=1).encode()),
    _values.map(msgspec.msgpack.encode),
    _values.map(lambda value: msgspec.msgpack.encode([1, "x", msgspec.json.encode(value)])),
    _texts.map(str.encode),
    _values.map(lambda value: json.dumps(value).replace("s", "\\u0073").encode()),
    st.binary(max_size=20),
)


def _decoded(data: bytes) -> object:
    for decode in (msgspec.json.decode, msgspec.msgpack.decode):
        try:
            return decode(data)
        except (msgspec.DecodeError, ValueError):
            continue
    return data.decode("utf-8", "replace")


@given(_entries)
def test_an_entry_is_as_the_redactor_writes_it_or_has_no_secret(data):
    redactor = Redactor([GIVEN])
    found = masked(redactor, data)
    if found == data:
        assert _decoded(redactor.encoded(data)) == _decoded(data)
    else:
        assert found == redactor.encoded(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"pass\\u0077ord":"abc"}', b'{"password": "abc"}', b'{"t":"\\u0073k-ant-api03-abcdefghijklmnopq"}',
        msgspec.msgpack.encode([1, "tool.call", b'{"args":{"apiKey":"abc"}}']),
    ],
)  # fmt: skip
def test_a_secret_behind_an_escape_or_a_name_is_masked(data):
    assert b"[redacted]" in masked(Redactor(), data)


def test_an_entry_without_secrets_has_the_same_bytes():
    for data in (b'{ "a" : 1 }', b"\x93\x01\xa1x\xc4\x02{}", b"not JSON"):
        assert masked(Redactor(), data) is data
