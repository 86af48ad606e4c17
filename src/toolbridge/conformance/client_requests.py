"""The requests of the cases, independent of any API; `conformance/requests.toml` defines them."""

from typing import Literal

import msgspec

from toolbridge.core.json import JsonObject

MARK = "conform-"
"""The prefix of the mark in every request's first text. The mark passes through any gateway and
selects the case that the scripted upstream plays."""


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
    """A tool's result."""
    picture: str = ""
    """A picture in a result, after its text."""
    id: str = ""
    """The id of the call, or of the call that a result answers."""
    error: bool = False
    search: str = ""
    """The query of a search that the vendor's server ran in an earlier answer, with `id`."""
    found: tuple[str, ...] = ()
    """The addresses that the search found."""


class CaseTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]
    parts: tuple[CasePart, ...] = ()


class CaseTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str = ""
    schema: JsonObject = {}


class CaseServerTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool that the server runs; each client API declares it in its own words."""

    kind: Literal["web_search", "web_fetch", "code_execution", "tool_search", "mcp"]
    max_uses: int = 0
    allow: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    city: str = ""
    label: str = ""
    url: str = ""


class CaseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    turns: tuple[CaseTurn, ...]
    system: str = ""
    tools: tuple[CaseTool, ...] = ()
    server_tools: tuple[CaseServerTool, ...] = ()
    choice: str = ""
    """`auto`, `none`, `required` or the name of a tool."""
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()
    thinking: bool = False


class EncodedRequest(msgspec.Struct, frozen=True):
    """A request encoded for a client API."""

    path: str
    body: JsonObject
    headers: dict[str, str] = {}


def marked(ask: CaseRequest, mark: str) -> CaseRequest:
    """Return `ask` with `mark` at the end of the user's first text."""
    turns = list(ask.turns)
    for at, turn in enumerate(turns):
        for place, part in enumerate(turn.parts):
            if turn.role == "user" and part.text:
                parts = list(turn.parts)
                parts[place] = msgspec.structs.replace(part, text=f"{part.text} ({mark})")
                turns[at] = CaseTurn(turn.role, tuple(parts))
                return msgspec.structs.replace(ask, turns=tuple(turns))
    raise ValueError("a request needs a text of the user, to carry its mark")


def tool_named(ask: CaseRequest, call_id: str) -> str:
    """Return the tool name of the call `call_id`, for APIs that repeat it in the result."""
    for turn in ask.turns:
        for part in turn.parts:
            if part.call and part.id == call_id:
                return part.call
    return ""
