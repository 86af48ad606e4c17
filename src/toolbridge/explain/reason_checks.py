"""Checks of the values of an edit, by which `explain/reasons.py` finds its reason.

A check is strict: it holds only if nothing is lost, for example if a text that left its place is
elsewhere in the sent request.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from toolbridge.core.json import Json, dumps
from toolbridge.core.messages import Request, Result
from toolbridge.core.server_tool_text import server_text
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.explain.edits import Comparison, Edit, json_of
from toolbridge.history.prefix import BILLING

_MARKED = re.compile(r"\[[^\]]*(document|audio|image|file|omitted|shown|system)[^\]]*\]|<system")
Check: TypeAlias = Callable[[Edit, Comparison], bool]


def _text_of(value: Json) -> str:
    """Return every text inside a value, without white space."""
    if isinstance(value, str):
        return "".join(value.split())
    if isinstance(value, list):
        return "".join(map(_text_of, value))
    if isinstance(value, dict):
        return "".join(_text_of(value.get(name)) for name in ("text", "content"))
    return ""


def _all_text(request: Request) -> str:
    """Return the texts of a request, those of each role together, without white space."""
    found = [text.text for text in request.system]
    for role in ("system", "user", "assistant"):
        for turn in request.turns:
            if turn.role == role:
                found += [_part_text(part) for part in turn.content]
    return "".join("".join(found).split())


def _part_text(part: object) -> str:
    texts = [str(getattr(part, name, "")) for name in ("title", "context", "text")]
    return "".join(texts) + "".join(map(_part_text, getattr(part, "content", ())))


def still_there(edit: Edit, found: Comparison) -> bool:
    """Whether the text that left this place is elsewhere in the sent request."""
    words = _text_of(edit.before)
    return bool(words) and words in _all_text(found.sent)


def was_there(edit: Edit, found: Comparison) -> bool:
    """Whether the text that came to this place was elsewhere in the client's request."""
    everything = _all_text(found.came)
    values = edit.after if isinstance(edit.after, list) else [edit.after]
    texts = [value.get("text") if isinstance(value, dict) else value for value in values]
    words = [word for text in texts for word in str(text or "").split()]
    return bool(words) and all(word in everything for word in words)


def is_extended(edit: Edit, _: Comparison) -> bool:
    before, after = _text_of(edit.before), _text_of(edit.after)
    return bool(before) and before in after


def is_removed(edit: Edit, _: Comparison) -> bool:
    return edit.kind == "removed"


def is_added(edit: Edit, _: Comparison) -> bool:
    return edit.kind == "added"


def is_marked(edit: Edit, _: Comparison) -> bool:
    after = edit.after if isinstance(edit.after, dict) else {}
    return _MARKED.search(str(after.get("text") or edit.after or "")) is not None


def is_server_part(edit: Edit, found: Comparison) -> bool:
    """Whether a part is the call or the result of a server tool, or its text."""
    value = edit.before if isinstance(edit.before, dict) else {}
    if value.get("type") in {"server_call", "server_result"}:
        return True
    shown = edit.after.get("text") if isinstance(edit.after, dict) else edit.after
    after = str(shown or "")
    parts = (part for turn in found.came.turns for part in turn.content)
    told = (server_text(part) for part in parts if isinstance(part, ServerCall | ServerResult))
    return any(text.strip() in after for text in told if text.strip())


def is_empty_text(edit: Edit, _: Comparison) -> bool:
    value = edit.before if edit.after is None else edit.after
    return isinstance(value, dict) and value.get("type") == "text" and not _text_of(value)


def has_value_elsewhere(edit: Edit, found: Comparison) -> bool:
    """Whether the value of a field is in the sent (or came with the client's) request."""
    other = found.sent if edit.kind == "removed" else found.came
    value = edit.before if edit.kind == "removed" else edit.after
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    held = [*other.extra.values(), other.session, other.user]
    held += [
        next(iter(one.values())) for one in other.extra.values() if isinstance(one, dict) and one
    ]
    return value in held


def is_renamed(edit: Edit, found: Comparison) -> bool:
    return found.names.get(str(edit.after)) == edit.before


def in_prompt(_: Edit, found: Comparison) -> bool:
    return found.tool_mode in {"prompt", "constrained"}


def is_constrained(_: Edit, found: Comparison) -> bool:
    return found.tool_mode == "constrained"


def offers_none(edit: Edit, found: Comparison) -> bool:
    return edit.before == "none" and not found.sent.tools


def is_default(value: Json) -> Check:
    def check(edit: Edit, _: Comparison) -> bool:
        return (edit.before if edit.after is None else edit.after) == value

    return check


def same_schema(edit: Edit, _: Comparison) -> bool:
    """Whether the property names of a schema are all still there."""
    return _properties(edit.before) <= _properties(edit.after)


def _properties(schema: Json) -> set[str]:
    if isinstance(schema, list):
        return {name for item in schema for name in _properties(item)}
    if not isinstance(schema, dict):
        return set()
    own = schema.get("properties")
    inner = {name for value in schema.values() for name in _properties(value)}
    return inner | (set(own) if isinstance(own, dict) else set())


def is_excluded(edit: Edit, found: Comparison) -> bool:
    choice = found.came.tool_choice
    name = edit.before.get("name") if isinstance(edit.before, dict) else None
    return choice.mode == "none" or (bool(choice.names) and name not in choice.names)


def is_sealed(edit: Edit, _: Comparison) -> bool:
    """Whether this is a thought without a text, of which only its provider can read the token."""
    value = edit.before if isinstance(edit.before, dict) else {}
    return value.get("type") == "thinking" and not value.get("text")


def is_same_call(edit: Edit, found: Comparison) -> bool:
    """Whether the other parts of the call or result still agree."""
    return dumps(edit.before) != dumps(edit.after) and bool(found.sent.turns)


def is_told(edit: Edit, found: Comparison) -> bool:
    """Whether this is a call, a result or the text of one, where the prompt describes the tools."""
    value = edit.before if edit.after is None else edit.after
    kind = value.get("type") if isinstance(value, dict) else "text"
    if edit.kind == "removed" and kind == "text":
        return still_there(edit, found)
    return in_prompt(edit, found) and kind in {"call", "result", "text", "reference"}


def _contents(found: Comparison) -> str:
    """Return the whole sent conversation as JSON."""
    return dumps(json_of((found.sent.system, found.sent.turns)))


def is_kept(edit: Edit, found: Comparison) -> bool:
    """Whether the texts and media that left this place are elsewhere in the sent request."""
    items = edit.before if isinstance(edit.before, list) else [edit.before]
    everything = _contents(found)
    return all(_is_in(item, everything, found) for item in items)


def _is_in(item: Json, everything: str, found: Comparison) -> bool:
    if not isinstance(item, dict):
        return False
    media = [str(item[name]) for name in ("data", "url", "file_id") if item.get(name)]
    if media:
        return any(dumps(value)[1:-1] in everything for value in media)
    words = _text_of(item)
    return not words or words in _all_text(found.sent)


def is_moved(edit: Edit, found: Comparison) -> bool:
    """Whether the same part is elsewhere in the sent request, or was elsewhere in the client's."""
    if edit.kind == "removed":
        return _identity(edit.before, {}) in _identities(found.sent, found.names)
    return edit.kind == "added" and _identity(edit.after, found.names) in _identities(
        found.came, {}
    )


def _identities(request: Request, names: Mapping[str, str]) -> set[str]:
    found: set[str] = set()
    for turn in request.turns:
        for part in turn.content:
            inner = part.content if isinstance(part, Result) else ()
            found |= {_identity(json_of(one), names) for one in (part, *inner)}
    return found


def _identity(value: Json, names: Mapping[str, str]) -> str:
    """Return what makes a part the same wherever it stands."""
    if not isinstance(value, dict):
        return ""
    kind = value.get("type")
    if kind == "call":
        name = str(value.get("name"))
        return dumps([kind, names.get(name, name), value.get("arguments") or {}, value.get("raw")])
    media = [value[name] for name in ("data", "url", "file_id") if value.get(name)]
    return dumps([kind, *media] if media else [kind, _text_of(value)])


def is_reordered(edit: Edit, found: Comparison) -> bool:
    """Whether a text was paired with another one, and both are in both requests."""
    before, after = str(edit.before or "").split(), str(edit.after or "").split()
    came, sent = _all_text(found.came), _all_text(found.sent)
    return all(word in sent for word in before) and all(word in came for word in after)


def are_renamed(edit: Edit, found: Comparison) -> bool:
    after = edit.after if isinstance(edit.after, list) else []
    return [found.names.get(str(name), name) for name in after] == edit.before


def starts(*words: str) -> Check:
    def check(edit: Edit, _: Comparison) -> bool:
        value = edit.after.get("text") if isinstance(edit.after, dict) else edit.after
        return any(word in str(value) for word in words)

    return check


def wants_logprobs(_: Edit, found: Comparison) -> bool:
    return found.came.sampling.logprobs is not None


def is_configured(edit: Edit, found: Comparison) -> bool:
    return edit.place.rpartition(".")[2] in found.options


def is_billing_line(edit: Edit, _: Comparison) -> bool:
    before = edit.before.get("text") if isinstance(edit.before, dict) else edit.before
    return str(before).startswith(BILLING)
