"""Finds out whether a model may fetch an address.

Anthropic, web fetch tool: only an address that has occurred in the conversation is fetched
(`url_not_in_prior_context`). A page could otherwise make the model send secrets to a stranger, in
an address that contains them.
"""

import re
import string
from collections.abc import Iterator

from toolbridge.core.messages import Document, Part, Request, Result, Text
from toolbridge.core.server_tool_text import outcome_text
from toolbridge.core.server_tools import ServerResult

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_HOST = re.compile(r"[^/?]*")
_NO_ADDRESS = re.compile(r"[\s<>\"]")
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
"""Keeps the length of a text, unlike `str.lower`."""
_BEFORE = frozenset(" \t\r\n<>\"'`()[]{}|\\^")
_CJK = "\u2e80"
"""The first character of the scripts that are written without spaces, and of their punctuation."""
_AFTER = re.compile(
    rf"/?(?:\#|[.,;:!?*_\u2026\u201d\u2019\xbb]*(?:[\s<>\"'`)\]{{}}|\\^]|[{_CJK}-\U0010ffff]|\Z))"
)
"""What may follow an address: a fragment, or the punctuation of the text and then its end."""


def occurs(url: str, request: Request) -> bool:
    """Return whether `url` occurs in what the user, a tool or a page wrote.

    An address without a scheme counts if its host has a dot, as in `example.org/docs`.
    """
    bare = _SCHEME.sub("", url.strip(), count=1).partition("#")[0].rstrip("/")
    if _NO_ADDRESS.search(bare):
        return False
    found = _HOST.match(bare)
    host = found.group() if found else ""
    return bool(host) and any(_occurs(bare, len(host), text) for text in _texts(request))


def is_web_address(url: str) -> bool:
    """Return whether `url` begins with `http://` or `https://`."""
    return _SCHEME.match(url.strip()) is not None


def _occurs(address: str, host: int, text: str) -> bool:
    """Return whether `address`, whose first `host` characters are the host, is one in `text`.

    The address is searched for, and not each address of the text: that takes linear time.
    """
    lowered, wanted = text.translate(_LOWER), address.translate(_LOWER)
    dotted = "." in address[:host]
    at = lowered.find(wanted)
    while at >= 0:
        same = text[at + host : at + len(address)] == address[host:]
        if same and _begins(lowered, at, dotted=dotted) and _AFTER.match(text, at + len(address)):
            return True
        at = lowered.find(wanted, at + host)
    return False


def _begins(text: str, at: int, *, dotted: bool) -> bool:
    if text.endswith(("http://", "https://"), 0, at):
        return True
    before = text[at - 1 : at]
    return dotted and (not before or before in _BEFORE or (before >= _CJK and not before.isalnum()))


def _texts(request: Request) -> Iterator[str]:
    for part in request.system:
        yield part.text
    for turn in request.turns:
        for one in turn.content:
            if turn.role != "assistant" or isinstance(one, ServerResult):
                yield from _texts_of(one)


def _texts_of(part: Part) -> Iterator[str]:
    match part:
        case Text(text):
            yield text
        case Document():
            yield f"{part.text}\n{part.url}"
        case Result():
            for inner in part.content:
                yield from _texts_of(inner)
        case ServerResult():
            yield outcome_text(part.outcome)
        case _:
            return
