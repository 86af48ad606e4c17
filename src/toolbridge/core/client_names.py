"""Translates paths in a `Request` into paths in the client's JSON.

Encoders and history name a loss by its path in the `Request`: `sampling.top_k`,
`turns.3.content.0.detail`. Users need the path in the JSON that they sent:
`generationConfig.topK`, `messages.4.content.0.detail`. `translate.plan` renames losses here.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from toolbridge.core.messages import Loss, Part, Request, Result, Tool, Turn

_MINOR = frozenset({"think.show"})
"""Fields that no answer depends on, whichever codec loses them."""


def name_losses(losses: Sequence[Loss], request: Request, names: Mapping[str, str]) -> list[Loss]:
    """Return `losses` with paths of the client's API; `names` maps paths of `Request` to them."""
    if not losses:
        return []
    return [
        Loss(client_name(loss.what, request, names), loss.why, loss.minor or loss.what in _MINOR)
        for loss in losses
    ]


def join_losses(losses: Sequence[Loss]) -> tuple[Loss, ...]:
    """Return `losses` with those of the same reason merged: a long history repeats them."""
    if len(losses) < 2:
        return tuple(losses)
    first: dict[tuple[str, str, bool], Loss] = {}
    places: dict[tuple[str, str, bool], set[str]] = {}
    for loss in losses:
        key = (_field(loss.what), loss.why, loss.minor)
        first.setdefault(key, loss)
        places.setdefault(key, set()).add(loss.what)
    return tuple(
        replace(loss, why=f"{loss.why} ({len(places[key])} times)")
        if len(places[key]) > 1
        else loss
        for key, loss in first.items()
    )


def _field(what: str) -> str:
    """Return the name of the field; an empty text for an item of a list."""
    steps = what.split(".")
    if not any(step.isdecimal() for step in steps):
        return what
    return "" if steps[-1].isdecimal() else steps[-1]


def client_name(what: str, request: Request, names: Mapping[str, str]) -> str:
    """Return the path `what` in the client's API."""
    head, *rest = what.split(".")
    if head in {"turns", "system", "tools"} and rest and rest[0].isdecimal():
        return _in_list(head, rest, request, names)
    at = what
    while at:
        if at in names:
            return names[at] + what[len(at) :] if names[at] else what[len(at) :].lstrip(".")
        at = at.rpartition(".")[0]
    return what


def _in_list(head: str, rest: list[str], request: Request, names: Mapping[str, str]) -> str:
    listed: tuple[Turn | Part | Tool, ...] = getattr(request, head)
    if int(rest[0]) >= len(listed):
        return names.get(head, head)
    one: Turn | Part | Tool = listed[int(rest[0])]
    rest = rest[1:]
    path = one.source.path if one.source else ""
    while rest[:1] == ["content"] and len(rest) > 1 and isinstance(one, Turn | Result):
        if int(rest[1]) >= len(one.content):
            break
        one = one.content[int(rest[1])]
        rest = rest[2:]
        path = one.source.path if one.source else path
    inside = [names.get(f"*.{step}", step) for step in rest]
    return ".".join([path or names.get(head, head), *inside])
