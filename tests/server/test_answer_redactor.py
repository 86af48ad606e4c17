"""Events of kept answers leave the process without secrets, and no later than they must."""

import json

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.redaction import Redactor
from toolbridge.server.answer_redactor import AnswerRedactor

CONFIGURED = "own-key-0123456789"
SPACED = "a pass phrase"
SECRETS = (
    "sk-ant-REDACTED",
    "ghp_abcdefghijklmnop1234",
    CONFIGURED,
    "password: hunter2secret",
    'api_key = "two words"',
    "Authorization: Bearer abc.def.ghi-jkl",
    "bearer tok123456en",
    "https://name:hidden7@host/",
    "?api_key=valuex12",
    '{"credentials": {"user": "inside9"}}',
)
HIDDEN = (
    "sk-ant-REDACTED",
    "ghp_abc",
    CONFIGURED,
    "hunter2secret",
    "two words",
    "abc.def",
    "tok123456en",
    "hidden7",
    "valuex12",
    "inside9",
)


def event(text: str) -> bytes:
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": text},
    }
    return f"event: content_block_delta\ndata: {json.dumps(delta)}\n\n".encode()


def text_of(events: list[tuple[int, bytes]]) -> str:
    return "".join(json.loads(data.partition(b"data: ")[2])["delta"]["text"] for _, data in events)


def feed(
    pieces: list[str], secrets: tuple[str, ...] = (CONFIGURED,)
) -> list[list[tuple[int, bytes]]]:
    """Return the events that leave after each piece, and those at the end."""
    stage = AnswerRedactor(Redactor(secrets))
    return [*(stage.feed(n, event(piece)) for n, piece in enumerate(pieces, 1)), stage.close()]


WORDS = st.sampled_from(
    [
        *SECRETS,
        "the",
        "monkey",
        "passes",
        "Key",
        "secrets",
        "of",
        "it's",
        "a:",
        "b=c",
        "x\n",
        "…",
        "--",
        "(so)",
    ]
)


@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_no_cut_of_a_text_lets_a_secret_out(words, sizes):
    text = " ".join(words)
    pieces, at = [], 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    left = [one for batch in feed(pieces) for one in batch]
    assert [n for n, _ in left] == list(range(1, len(pieces) + 1))
    shown = text_of(left)
    assert not [secret for secret in HIDDEN if secret in shown], shown
    if not any(secret in text for secret in SECRETS):
        assert shown == text


def test_prose_waits_for_the_end_of_a_word_only():
    pieces = ["The qu", "ick", " fox", " jumps. ", "It's a mon", "key: ", "yes"]
    left = [[n for n, _ in batch] for batch in feed(pieces)]
    assert left == [[], [], [1, 2], [3, 4], [], [5, 6], [], [7]]


@every_row(
    ("text", "settled"),
    [
        ("plain words here", len("plain words ")),
        ("one", 0),
        ("the password", len("the ")),
        ("the password ", 0),
        ("the password is long ", len("the password is long ")),
        ("password: a b ", 0),
        ("bearer ", 0),
        ("bearer of news ", len("bearer of news ")),
        ('{"a": "b c ', 0),
        ("----- BEGIN ", 0),
    ],
)
def test_what_announces_a_secret_is_held(text, settled):
    assert Redactor().settled(text) == settled


def test_a_configured_secret_with_spaces_holds_whole_lines():
    left = feed(["use a pa", "ss phr", "ase now\n", "fine"], (SPACED,))
    assert [[n for n, _ in batch] for batch in left] == [[], [], [1, 2, 3], [], [4]]
    assert "phr" not in text_of([one for batch in left for one in batch])


@every_row("secret", SECRETS)
def test_every_secret_of_the_property_is_one(secret):
    shown = text_of(feed([secret])[-1] or feed([secret])[0])
    assert not [hidden for hidden in HIDDEN if hidden in shown]
