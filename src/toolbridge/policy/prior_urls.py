"""Finds out whether a model may fetch an address.

Anthropic, web fetch tool: only an address that has occurred in the conversation is fetched
(`url_not_in_prior_context`). A page could otherwise make the model send secrets to a stranger, in
an address that contains them.
"""

import re
from collections.abc import Iterator

from toolbridge.core.messages import Document, Part, Request, Result, Text
from toolbridge.core.server_tool_text import outcome_text
from toolbridge.core.server_tools import ServerResult

_ADDRESS = re.compile(r"(?:https?://)?[^\s<>\"'`()\[\]{}|\\^]+\.[^\s<>\"'`{}|\\^]+", re.IGNORECASE)
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_TRAILING = ".,;:!?)]}'\"*_"


def occurs(url: str, request: Request) -> bool:
    """Return whether `url` occurs in what the user, a tool or a page wrote."""
    wanted = _normal(url)
    return any(wanted == _normal(found) for text in _texts(request) for found in _found(text))


def _found(text: str) -> Iterator[str]:
    for match in _ADDRESS.finditer(text):
        address = match.group()
        yield address
        yield address.rstrip(_TRAILING)
        # Markdown: the address of a link ends at the bracket.
        yield address.partition(")")[0]


def _normal(url: str) -> str:
    bare = _SCHEME.sub("", url.strip(), count=1).partition("#")[0]
    host, slash, rest = bare.partition("/")
    return (host.lower() + slash + rest).rstrip("/")


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
