"""Finds every difference between the request of a client and the request that was sent.

Both are compared as decoded `Request` values, so that only differences in meaning are edits, not
the spelling of an API. Each edit has its place in the client's JSON, the values before and after,
and a reason from `explain/reasons.py`. Parts of messages are aligned over the whole conversation,
because messages may be merged, split and moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Loss, Part, Request, Result, Tool, Turn

Kind: TypeAlias = Literal["changed", "added", "removed"]
_STRUCTS = ("sampling", "think", "tool_choice", "output", "completion")
_PLAIN = ("model", "max_tokens", "stop", "stream", "user", "session")


_MEDIA = frozenset({"image", "document", "audio"})
_CONTENT = ("data", "url", "file_id", "text")


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference between the client's request and the request that was sent."""

    place: str
    """A path in the `Request`; `turns.2.content.0` is a part of the client's request, and of the
    sent request for what was added."""
    kind: Kind
    before: Json = None
    after: Json = None
    reason: str = ""


class Comparison(msgspec.Struct, frozen=True):
    """Two requests, and what is known about the way from one to the other."""

    came: Request
    sent: Request
    target: str
    """The name of the target's API."""
    losses: tuple[Loss, ...] = ()
    tool_mode: str = "native"
    names: Mapping[str, str] = {}
    """Names of tools at the target → the client's names."""
    options: JsonObject = {}
    """Fields that the configuration adds to every request to the model."""


class _Item(NamedTuple):
    """A part of a conversation with its place."""

    place: str
    role: str
    value: JsonObject

    @property
    def kind(self) -> str:
        return str(self.value.get("type"))


def find_edits(
    came: Request, sent: Request, tool_names: Mapping[str, str] | None = None
) -> list[Edit]:
    """Return every difference between two requests, without reasons.

    `tool_names` maps names of tools at the target to the client's names.
    """
    found = [*_plain_edits(came, sent)]
    found += _member_edits("extra", came.extra, sent.extra)
    found += _item_edits(_system(came), _system(sent))
    found += _tool_edits(came.tools, sent.tools, tool_names or {})
    found += _item_edits(_parts(came.turns), _parts(sent.turns))
    before, after = _grouping(came.turns), _grouping(sent.turns)
    if before != after and not any(edit.place.startswith("turns.") for edit in found):
        found.append(Edit("turns", "changed", list(before), list(after)))
    return found


def _plain_edits(came: Request, sent: Request) -> Iterator[Edit]:
    for name in _PLAIN:
        before, after = json_of(getattr(came, name)), json_of(getattr(sent, name))
        yield from _difference(name, before, after)
    for name in _STRUCTS:
        before, after = json_of(getattr(came, name)), json_of(getattr(sent, name))
        yield from _member_edits(name, _members(before), _members(after))
        if (before is None) != (after is None) and not _members(before) and not _members(after):
            yield Edit(name, "removed" if after is None else "added", before, after)


def _members(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _difference(place: str, before: Json, after: Json) -> Iterator[Edit]:
    if before == after and isinstance(before, bool) == isinstance(after, bool):
        return
    if _is_absent(before) and _is_absent(after):
        return
    kind: Kind = "added" if _is_absent(before) else "removed" if _is_absent(after) else "changed"
    yield Edit(place, kind, before, after)


def _is_absent(value: Json) -> bool:
    return value is None or value in ("", [])


def _member_edits(place: str, before: JsonObject, after: JsonObject) -> Iterator[Edit]:
    for name in dict.fromkeys((*before, *after)):
        if name != "source":
            yield from _difference(f"{place}.{name}", before.get(name), after.get(name))


def json_of(value: object) -> Json:
    """Return a struct, tuple or plain value as JSON, without the client's JSON of its parts."""
    found: Json = msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_raw)
    return _without_sources(found)


def _raw(value: object) -> Json:
    return None if isinstance(value, msgspec.Raw) else str(value)


def _without_sources(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_sources(item) for name, item in value.items() if name != "source"}
    if isinstance(value, list | tuple):
        return [_without_sources(item) for item in value]
    return value


def _bare(part: Part | Tool) -> JsonObject:
    """Return a part as JSON without the client's JSON of it."""
    plain = msgspec.structs.replace(part, source=None)
    if isinstance(plain, Result):
        content = tuple(msgspec.structs.replace(one, source=None) for one in plain.content)
        plain = msgspec.structs.replace(plain, content=content)
    return _members(json_of(plain))


# ── lists ────────────────────────────────────────────────────────────────────


def _system(request: Request) -> list[_Item]:
    return [_Item(f"system.{n}", "system", _bare(text)) for n, text in enumerate(request.system)]


def _parts(turns: Sequence[Turn]) -> list[_Item]:
    return [
        _Item(f"turns.{n}.content.{m}", turn.role, _bare(part))
        for n, turn in enumerate(turns)
        for m, part in enumerate(turn.content)
    ]


def _grouping(turns: Sequence[Turn]) -> tuple[str, ...]:
    """Return the roles and numbers of parts of the messages, which merging changes."""
    return tuple(f"{turn.role} {len(turn.content)}" for turn in turns)


def _item_edits(came: list[_Item], sent: list[_Item]) -> Iterator[Edit]:
    before = [dumps([item.role, item.value]) for item in came]
    after = [dumps([item.role, item.value]) for item in sent]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _block_edits(came[i1:i2], sent[j1:j2])


def _block_edits(came: list[_Item], sent: list[_Item]) -> Iterator[Edit]:
    """Yield the edits of a block: items of the same kind are paired in their order."""
    if _is_regrouped(came, sent):
        before: list[Json] = [item.value.get("text") for item in came]
        after: list[Json] = [item.value.get("text") for item in sent]
        yield Edit(came[0].place, "changed", before, after)
        return
    waiting = list(sent)
    for item in came:
        paired = [one for one in waiting if _pairs(item, one)]
        other = next((one for one in paired if _has_same_id(item, one)), None)
        other = other or next(iter(paired), None)
        if other is None:
            yield Edit(item.place, "removed", {"role": item.role, **item.value})
            continue
        waiting.remove(other)
        yield from _item_difference(item, other)
    for item in waiting:
        yield Edit(item.place, "added", None, {"role": item.role, **item.value})


def _pairs(item: _Item, other: _Item) -> bool:
    if item.kind != other.kind or item.role != other.role:
        return False
    if item.kind not in _MEDIA:
        return True
    given = [name for name in _CONTENT if name in item.value]
    return any(item.value[name] == other.value.get(name) for name in given)


def _has_same_id(item: _Item, other: _Item) -> bool:
    """Whether both are the same call, or results of the same call."""
    names = [name for name in ("id", "call_id") if name in item.value]
    return any(item.value[name] == other.value.get(name) for name in names)


def _is_regrouped(came: list[_Item], sent: list[_Item]) -> bool:
    """Whether these are the same words in another number of texts."""
    if not came or not sent or len(came) == len(sent) or not _has_texts_only(came, sent):
        return False
    return _words(came) == _words(sent)


def _has_texts_only(came: list[_Item], sent: list[_Item]) -> bool:
    items = (*came, *sent)
    plain = all(item.value.keys() <= {"type", "text"} for item in items)
    return plain and len({(item.role, item.kind) for item in items}) == 1


def _words(items: list[_Item]) -> str:
    return "".join("".join(str(item.value.get("text")).split()) for item in items)


def _item_difference(item: _Item, other: _Item) -> Iterator[Edit]:
    yield from _difference(f"{item.place}.role", item.role, other.role)
    yield from _member_edits(item.place, item.value, other.value)


def _tool_edits(
    came: Sequence[Tool], sent: Sequence[Tool], tool_names: Mapping[str, str]
) -> Iterator[Edit]:
    """Yield the edits of tools; a tool keeps its position, or its name if its position changed."""
    names = {tool_names.get(tool.name, tool.name): n for n, tool in enumerate(sent)}
    left = set(range(len(sent)))
    for n, tool in enumerate(came):
        at = names.get(tool.name, n if n < len(sent) and n in left else None)
        if at is None or at not in left or (tool.name not in names and _known(sent[at], came)):
            yield Edit(f"tools.{n}", "removed", _bare(tool))
            continue
        left.discard(at)
        yield from _member_edits(f"tools.{n}", _bare(tool), _bare(sent[at]))
    for n in sorted(left):
        yield Edit(f"tools.{n}", "added", None, _bare(sent[n]))


def _known(tool: Tool, came: Sequence[Tool]) -> bool:
    return any(tool.name == one.name for one in came)
