"""A provider's key is replaced wherever the provider repeats it, and nothing else is."""

import json
from base64 import b64encode
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.upstream.masking import KeyMask, secrets_of

KEY = "sk-abcabcabd"
ODD = 'odd/key+with"&<marks'


@every_row(
    ("headers", "secrets"),
    [
        ({"Authorization": f"Bearer {KEY}"}, (KEY,)),
        ({"x-api-key": KEY, "anthropic-version": "2023-06-01"}, (KEY,)),
        ({"x-goog-api-key": KEY, "X-Auth-Token": KEY + "2"}, (KEY + "2", KEY)),
        ({"authorization": "Bearer ollama"}, ()),
        ({"x-api-key": "EMPTY"}, ()),
        ({}, ()),
    ],
)
def test_keys_are_found_in_the_headers_that_carry_them(headers, secrets):
    assert secrets_of(headers) == secrets


@given(
    st.lists(st.sampled_from(["a", "sk-", "sk-abcabc", KEY, "abd", "\n", "sk-abcabcab"])),
    st.lists(st.integers(min_value=0, max_value=80)),
)
def test_any_cut_gives_the_same_masked_bytes(parts, cuts):
    text = "".join(parts)
    data = text.encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    mask = KeyMask([KEY])
    pieces = [mask.feed(data[a:b]) for a, b in pairwise(places)]
    masked = b"".join([*pieces, mask.close()])
    assert masked == text.replace(KEY, "[key]").encode()


def test_an_end_that_no_key_begins_with_is_not_held_back():
    mask = KeyMask([KEY])
    assert mask.feed(b"data: {}\n\n") == b"data: {}\n\n"
    assert mask.feed(b"sk-") == b""
    assert mask.feed(b"y\n") == b"sk-y\n"


def test_a_header_is_masked_whole():
    assert KeyMask([KEY]).text(f"a={KEY}; b") == "a=[key]; b"


@every_row(
    "written",
    [
        json.dumps(ODD), json.dumps(ODD).replace("/", "\\/"),
        json.dumps(ODD).replace("&", "\\u0026").replace("<", "\\u003c"),
        json.dumps(ODD).replace("&", "\\u0026").replace("<", "\\u003C").replace("+", "\\u002B").replace('\\"', "\\u0022"),
    ],
    ids=["JSON", "PHP", "Go", ".NET"],
)  # fmt: skip
def test_a_key_that_json_escapes_is_replaced(written):
    assert json.loads(written) == ODD
    mask = KeyMask([ODD])
    out = b"".join(mask.feed(bytes([byte])) for byte in f'{{"echo":{written}}}'.encode())
    assert out + mask.close() == b'{"echo":"[key]"}'


@every_row("key", [KEY, ODD, KEY + "2", KEY + "23"])
def test_a_key_in_base64_is_replaced_at_every_cut(key):
    data = f"wrong login {b64encode(key.encode()).decode()}!".encode()
    for at in range(len(data)):
        mask = KeyMask([key])
        masked = mask.feed(data[:at]) + mask.feed(data[at:]) + mask.close()
        assert masked.replace(b"=", b"") == b"wrong login [key]!"
