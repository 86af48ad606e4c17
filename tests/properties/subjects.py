"""What the laws are about: every codec, what it writes, and every stored input."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.properties.grammar import run
from tests.strategies import MODEL
from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.codec import Asked, Codec
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Request

EXAMPLES = 40
"""Per law and codec, so that all laws over all codecs stay within a minute."""

ASKED = Asked(Request(model=MODEL, stream=True), at=1_790_000_000.0)

CODECS = [pytest.param(codecs.load(name), id=name) for name in codecs.names()]
every_codec = pytest.mark.parametrize("codec", CODECS)


def encoded(codec: Codec, events: Iterable[ev.Event]) -> bytes:
    return b"".join(run(codec.stream_encoder(ASKED), events))


def decoded(codec: Codec, pieces: Iterable[bytes]) -> list[ev.Event]:
    return run(codec.stream_decoder(Ids("law")), pieces)


def fed(codec: Codec, pieces: Iterable[bytes]) -> list[ev.Event]:
    """What is said to `pieces` while more may come."""
    decoder = codec.stream_decoder(Ids("law"))
    return [event for piece in pieces for event in decoder.feed(piece)]


def single_bytes(data: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in data]


_TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"
_FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _inputs() -> Iterator[object]:
    for path in sorted(_TRANSCRIPTS.rglob("*.md")):
        fence = _FENCE.search(path.read_text("utf-8"))
        if fence is None or fence[1] not in codecs.names():
            continue
        if fence[0].split("\n", 1)[0].endswith(" request"):
            continue
        yield pytest.param(
            codecs.load(fence[1]), fence[2].encode(), id=f"{path.parent.name}-{path.stem}"
        )


INPUTS = list(_inputs())
every_input = pytest.mark.parametrize(("codec", "data"), INPUTS)
