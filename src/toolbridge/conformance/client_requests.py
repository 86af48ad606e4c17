"""What a client asks, in no API's words; `conformance/requests.toml` holds one of each."""

from typing import Literal

import msgspec

from toolbridge.core.json import JsonObject

MARK = "conform-"
"""Every request carries a mark in its first words. It finds its way through any gateway, and tells
the scripted upstream which case it is to play."""


class CasePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of `text`, `thinking`, `image`, `call` and `result` is set."""

    text: str | None = None
    thinking: str = ""
    signature: str = ""
    image: str = ""
    """A picture, as base64 of a PNG."""
    call: str = ""
    """The name of the tool that the model called."""
    arguments: JsonObject = {}
    result: str | None = None
    """What a tool gave back."""
    picture: str = ""
    """A picture that stands in a result, after its text."""
    id: str = ""
    """Of the call, or of the call that a result answers."""
    error: bool = False


class CaseTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]
    parts: tuple[CasePart, ...] = ()


class CaseTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str = ""
    schema: JsonObject = {}


class CaseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    turns: tuple[CaseTurn, ...]
    system: str = ""
    tools: tuple[CaseTool, ...] = ()
    choice: str = ""
    """`auto`, `none`, `required` or the name of a tool."""
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()
    thinking: bool = False


class EncodedRequest(msgspec.Struct, frozen=True):
    """A request in a client's own words."""

    path: str
    body: JsonObject
    headers: dict[str, str] = {}


def marked(ask: CaseRequest, mark: str) -> CaseRequest:
    """Return `ask` with `mark` at the end of the first words that the user says."""
    turns = list(ask.turns)
    for at, turn in enumerate(turns):
        for place, part in enumerate(turn.parts):
            if turn.role == "user" and part.text:
                parts = list(turn.parts)
                parts[place] = msgspec.structs.replace(part, text=f"{part.text} ({mark})")
                turns[at] = CaseTurn(turn.role, tuple(parts))
                return msgspec.structs.replace(ask, turns=tuple(turns))
    raise ValueError("a request needs words of the user, to carry its mark")


def tool_named(ask: CaseRequest, call_id: str) -> str:
    """Return the name of the tool that the call `call_id` asked for, for APIs that want it again."""
    for turn in ask.turns:
        for part in turn.parts:
            if part.call and part.id == call_id:
                return part.call
    return ""
