"""Finds a result that a model wrote in prose or in a code fence instead of a frame.

This is tried before the model is asked again: a repair costs a request and often changes the answer.
JSON inside a quoted frame is skipped, because the model did not write it as its own result.
"""

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder

from toolbridge.core.json import Json
from toolbridge.structured.bounds import depth_of
from toolbridge.structured.limits import Limits
from toolbridge.structured.read_value import read_value
from toolbridge.structured.schemas import Compiled
from toolbridge.structured.sentinels import CLOSING, OPENING

_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\1", re.MULTILINE | re.DOTALL)
_FRAME = re.compile(
    f"{OPENING}BEGIN_(\\w+) id=(\\S+) [^{CLOSING}]*{CLOSING}"
    f"(?:(?!{OPENING}END_).)*(?:{OPENING}END_\\w+ id=[^{CLOSING}]*{CLOSING})?",
    re.DOTALL,
)
_OPENING = re.compile(r"[{\[]")
_MOST_TRIES = 32
_decoder = JSONDecoder()


def maybe_found(text: str, compiled: Compiled, limits: Limits) -> Json:
    """Return the last object or array in `text` that fits the schema, or None."""
    text = _FRAME.sub("", text[-limits.frame :])
    for part in _candidates(text):
        read = read_value(part, compiled)
        if read.closed and read.value and depth_of(read.value) <= limits.depth:
            return read.value
    return None


def _candidates(text: str) -> Iterator[str]:
    """Yield parts of `text` that may be JSON, the most likely first."""
    fenced = [found[2] for found in _FENCED.finditer(text)]
    yield from reversed([part for part in fenced if _OPENING.search(part)][-_MOST_TRIES:])
    yield from reversed(list(_values(text)))
    first = _OPENING.search(text)
    last = max(text.rfind("}"), text.rfind("]"))
    if first is not None and last > first.start():
        yield text[first.start() : last + 1]


def _values(text: str) -> Iterator[str]:
    """Yield the outermost JSON values in `text`."""
    at = 0
    for _ in range(_MOST_TRIES):
        found = _OPENING.search(text, at)
        if found is None:
            return
        at = found.end()
        try:
            _, end = _decoder.raw_decode(text, found.start())
        except (JSONDecodeError, RecursionError):
            continue
        yield text[found.start() : end]
        at = end
