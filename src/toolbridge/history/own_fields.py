"""Removes fields of messages, parts and tools that exist only in the client's API.

Decoders record such fields on the part or tool they belong to; fields of a message itself, such as
OpenAI's `name`, are kept in a part of kind `message`. They return to the same API; for any other
API this module removes them and reports each as a loss.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from toolbridge.core.messages import Foreign, Loss, Origin, Part, Request, Result, Text, Tool, Turn
from toolbridge.core.shared_fields import title
from toolbridge.core.shared_tools import once_per_list

MESSAGE = "message"
"""The kind of the foreign part that carries the fields of a message."""

_MINOR = frozenset(
    {
        "eager_input_streaming", "id", "status", "phase", "input_examples", "partMetadata",
        "annotations", "logprobs", "internal_chat_message_metadata_passthrough", "index", "audio",
        "metadata", "citations",
    }
)  # fmt: skip
"""Fields that do not influence the answer: their loss is minor."""
_CACHE = {"anthropic": "cache_control"}


def without_own_fields(
    request: Request, api: str, own: Sequence[Turn], *, marks: bool
) -> tuple[Request, list[Loss]]:
    """Return `request` without the fields of its own API, and the losses.

    `own` are the turns of `request` that `has_own_fields` selects. `marks` is True if the target
    accepts cache breakpoints.
    """
    around = (
        _own_fields(request.system) if request.system else _NOTHING,
        _of_tools(request.tools) if request.tools else _NOTHING,
        _own_fields(_parts(own)) if own else _NOTHING,
    )
    if around == _ALL_CLEAN and "namespaces" not in request.extra:
        return request, []
    paths = [*around[0].paths, *around[1].paths, *around[2].paths]
    if "namespaces" in request.extra:
        paths += _namespaces(request)
    losses = [_loss(path, api) for path in paths] if paths else []
    marked = around[0].marked or around[1].marked or around[2].marked
    if marked and not marks:
        name = _CACHE.get(request.origin, "prompt_cache_breakpoint")
        why = "the provider caches prefixes by itself"
        losses.append(Loss(f"{marked}.{name}", why, minor=True))
    if "namespaces" in request.extra:
        request = replace(request, tools=_introduced(request))
    if around[2].messages:
        request = replace(request, turns=tuple(map(_without_message, request.turns)))
    return request, losses


class _OwnFields(msgspec.Struct, frozen=True):
    """What some tools or parts have that only their API knows."""

    paths: list[str]
    marked: str = ""
    """The path of the first that ends a prefix to cache."""
    messages: bool = False
    """Whether one of the parts carries fields of its message."""


_NOTHING = _OwnFields([])
_ALL_CLEAN = (_NOTHING, _NOTHING, _NOTHING)


def _own_fields(given: Iterable[Part | Tool | Turn]) -> _OwnFields:
    paths: list[str] = []
    marked, messages = "", False
    for one in given:
        source = one.source
        if source is None:
            continue
        if source.unknown or source.around:
            paths += _paths(source)
        if not marked and getattr(one, "cache", None):
            marked = source.path
        if isinstance(one, Foreign):
            messages = messages or one.kind == MESSAGE
    return _OwnFields(paths, marked, messages) if paths or marked or messages else _NOTHING


@once_per_list
def _of_tools(tools: tuple[Tool, ...]) -> _OwnFields:
    return _own_fields(tools)


def _paths(source: Origin) -> tuple[str, ...]:
    if not source.unknown:
        return source.around
    return (*(f"{source.path}.{name}" for name in source.unknown), *source.around)


def has_own_fields(turn: Turn) -> bool:
    """Return whether a turn has something that `without_own_fields` removes or reports."""
    return _own_fields(_parts((turn,))) is not _NOTHING


def _parts(turns: Sequence[Turn]) -> list[Part | Tool | Turn]:
    found: list[Part | Tool | Turn] = [*turns]
    for turn in turns:
        found += turn.content
        if Result in map(type, turn.content):
            for part in turn.content:
                if isinstance(part, Result):
                    found += part.content
    return found


def _namespaces(request: Request) -> Iterator[str]:
    """Yield the paths of the fields of tool namespaces other than their descriptions."""
    kept = request.extra.get("namespaces")
    for name, fields in kept.items() if isinstance(kept, dict) else ():
        first = next((tool for tool in request.tools if tool.namespace == name), None)
        if first is not None and first.source is not None and isinstance(fields, dict):
            path = first.source.path.rpartition(".tools.")[0]
            yield from (f"{path}.{field}" for field in fields if field != "description")


def _introduced(request: Request) -> tuple[Tool, ...]:
    """Return the tools; the first of each namespace carries the namespace's description.

    OpenAI Responses groups tools in namespaces; other APIs have none, so their tools are listed flat.
    """
    kept = request.extra.get("namespaces")
    unused = dict(kept) if isinstance(kept, dict) else {}
    tools: list[Tool] = []
    for tool in request.tools:
        fields = unused.pop(tool.namespace, None) if tool.namespace else None
        about = fields.get("description") if isinstance(fields, dict) else None
        if isinstance(about, str) and about:
            tools.append(
                replace(tool, description=f"[{tool.namespace}: {about}]\n{tool.description}")
            )
        else:
            tools.append(tool)
    return tuple(tools)


def _loss(path: str, api: str) -> Loss:
    name = path.rpartition(".")[2]
    return Loss(path, f"{title(api)} has no field for it", name in _MINOR)


def _is_message(part: Part) -> bool:
    return isinstance(part, Foreign) and part.kind == MESSAGE


def _without_message(turn: Turn) -> Turn:
    content = tuple(part for part in turn.content if not _is_message(part))
    return turn if len(content) == len(turn.content) else replace(turn, content=content)


# ── parts with a text for other APIs ─────────────────────────────────────────


def with_readable_parts(request: Request) -> Request:
    """Return `request` with a text in place of each foreign part that has one."""
    if not any(_has_text(part) for turn in request.turns for part in turn.content):
        return request
    turns = (replace(turn, content=tuple(map(_readable, turn.content))) for turn in request.turns)
    return replace(request, turns=tuple(turns))


def _has_text(part: Part) -> bool:
    return isinstance(part, Foreign) and bool(part.text)


def _readable(part: Part) -> Part:
    return Text(part.text) if isinstance(part, Foreign) and part.text else part
