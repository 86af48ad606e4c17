"""Chunks that have text and nothing else that is read, as nearly every chunk of a stream.

A delivery of the network may have hundreds of them, so they are decoded without a line of Python for
each one.
"""

from contextlib import suppress
from itertools import islice
from operator import attrgetter, itemgetter

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.wire.reply import WholeBody
from toolbridge.wire.sse import SseEvent

decoder = msgspec.json.Decoder(shapes.TextChunk)
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised for any other chunk."""
_name = attrgetter("event")
_data = attrgetter("data")
_choices = attrgetter("choices")
_only = itemgetter(0)
_content = attrgetter("delta.content")


def are_unnamed(records: list[SseEvent | WholeBody]) -> bool:
    """Return whether all of several events of a stream are without names."""
    return not any(map(_name, records))


def texts_of(records: list[SseEvent | WholeBody], begin: int) -> list[str]:
    """Return the texts of the records from `begin` on, up to the first that has more than text."""
    texts: list[str] = []
    bodies = map(_data, islice(records, begin, None))
    with suppress(*UNDECODABLE):
        texts.extend(map(_content, map(_only, map(_choices, map(decoder.decode, bodies)))))
    return texts
