"""What the laws are about: every codec, what it writes, and every stored input."""

import functools
from collections.abc import Callable, Iterable, Iterator

import pytest
from tests import transcript
from tests.properties.grammar import run
from tests.strategies import MODEL
from tests.tables import TableRow, check_rows

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext, Codec
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Request

EXAMPLES = 50
"""Per law and codec, so that all laws over all codecs stay within a minute."""

INCLUDE = [
    "web_search_call.action.sources",
    "web_search_call.results",
    "code_interpreter_call.outputs",
]
"""What a client of the Responses API must ask for to get the results of hosted tools."""
ASKED = AnswerContext(
    Request(model=MODEL, stream=True, extra={"include": INCLUDE}), at=1_790_000_000.0
)

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


def _inputs() -> Iterator[object]:
    for path in transcript.paths():
        first = transcript.read(path).fences[0]
        if first.language in codecs.names():  # an answer, not a request or a rejection
            story = str(path.relative_to(transcript.HOME).with_suffix(""))
            yield pytest.param(codecs.load(first.language), first.text.encode(), id=story)


INPUTS = list(_inputs())


def every_input(check: Callable[[Codec, bytes], None]) -> object:
    """Call a test for every stored input: one test per codec, one row per input."""

    @every_codec
    @functools.wraps(check)
    def checked(codec: Codec) -> None:
        inputs = [param for param in INPUTS if param.values[0] is codec]
        assert inputs
        rows = [TableRow(param.id, {"data": param.values[1]}) for param in inputs]
        check_rows(functools.partial(check, codec), rows)

    del checked.__wrapped__  # whose parameters pytest would ask for
    return checked


def inputs_of(codec: Codec) -> list[bytes]:
    return [param.values[1] for param in INPUTS if param.values[0] is codec]
