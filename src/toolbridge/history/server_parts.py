"""Replays past calls of server tools as ordinary calls and results.

A client sends the calls and results of server tools back as parts of one assistant turn. A model
that is offered the same tool as a function reads them as the calls and results that it saw at that
time, so the prompt has the same prefix as before. Parts of other tools stay; encoders write them as
text.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from toolbridge.core.messages import (
    Call,
    Part,
    Request,
    Result,
    Turn,
)
from toolbridge.core.result_seals import maybe_unseal
from toolbridge.core.server_tool_text import outcome_parts
from toolbridge.core.server_tools import (
    McpOutput,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerToolError,
)

FunctionName = Callable[[ServerCall], str]
"""Returns the name of the function for a call; empty if the tool is not offered."""


def with_unsealed(request: Request, key: bytes) -> Request:
    """Return `request` with the texts of search results that the gateway sealed."""
    if not any(isinstance(p, ServerResult) for turn in request.turns for p in turn.content):
        return request
    turns = (
        replace(turn, content=tuple(_unsealed(part, key) for part in turn.content))
        for turn in request.turns
    )
    return replace(request, turns=tuple(turns))


def _unsealed(part: Part, key: bytes) -> Part:
    if not isinstance(part, ServerResult) or not isinstance(part.outcome, SearchHits):
        return part
    hits = tuple(
        hit if (text := maybe_unseal(hit.sealed, key)) is None else replace(hit, snippet=text)
        for hit in part.outcome.hits
    )
    return part if hits == part.outcome.hits else replace(part, outcome=SearchHits(hits))


def replay_server_parts(request: Request, name_of: FunctionName) -> Request:
    """Return `request` with calls and results in place of the parts of offered server tools."""
    names: dict[str, str] = {}
    turns: list[Turn] = []
    for turn in request.turns:
        calls = [part for part in turn.content if isinstance(part, ServerCall)]
        names |= {call.id: name for call in calls if (name := name_of(call))}
        turns += _split(turn, names) if turn.role == "assistant" and names else [turn]
    return replace(request, turns=tuple(turns))


def _split(turn: Turn, names: Mapping[str, str]) -> list[Turn]:
    """Return an assistant turn as the turns of which it was made."""
    turns: list[Turn] = []
    said: list[Part] = []
    results: list[Part] = []
    for part in turn.content:
        if isinstance(part, ServerResult) and part.call_id in names:
            results.append(replayed_result(part, names[part.call_id]))
            continue
        if results:
            turns += [Turn("assistant", tuple(said)), Turn("user", tuple(results))]
            said, results = [], []
        if isinstance(part, ServerCall) and part.id in names:
            said.append(Call(part.id, names[part.id], part.arguments))
        else:
            said.append(part)
    if results:
        turns += [Turn("assistant", tuple(said)), Turn("user", tuple(results))]
        said = []
    return [*turns, replace(turn, content=tuple(said))] if said else turns


def replayed_result(result: ServerResult, name: str) -> Result:
    """Return the result of a server tool as the result of its function."""
    outcome = result.outcome
    failed = isinstance(outcome, ServerToolError) or (
        isinstance(outcome, McpOutput) and outcome.is_error
    )
    return Result(result.call_id, outcome_parts(outcome), is_error=failed, name=name)
