"""Gives every edit of a request its reason.

A reported loss is the first choice: it names the place and the provider's rule. Changes that lose
nothing have a rule here: a pattern of the place, a check of the values, and a text. An edit without
a reason is a defect; `tests/properties/test_explained_edits.py` searches for one.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from toolbridge.core.client_names import client_name
from toolbridge.core.json import Json, dumps
from toolbridge.core.messages import Loss, Request
from toolbridge.explain.edits import Comparison, Edit, find_edits
from toolbridge.history.prefix import BILLING

UNEXPLAINED = ""
_API_NAMES = {
    "anthropic": "Anthropic's API",
    "openai_chat": "Chat Completions",
    "openai_responses": "the Responses API",
    "gemini": "Gemini's API",
    "ollama": "Ollama's API",
}
_PART = r"turns\.\d+\.content\.\d+"
_MERGED = re.compile(r" \(\d+ times\)$")
_MARKED = re.compile(r"\[[^\]]*(document|audio|image|file|omitted|shown|system)[^\]]*\]|<system")
Check = Callable[[Edit, Comparison], bool]


class _Rule(NamedTuple):
    place: str
    text: str
    check: Check | None = None


def explain_edits(found: Comparison, names: Mapping[str, str]) -> list[Edit]:
    """Return every edit with its reason, under the client's names of places (`names`)."""
    return [_explained(edit, found, names) for edit in find_edits(found.came, found.sent)]


def _explained(edit: Edit, found: Comparison, names: Mapping[str, str]) -> Edit:
    place = edit.place
    if edit.kind != "added" or not re.match(r"(turns|system|tools)\.\d+$|turns", place):
        place = client_name(edit.place, found.came, names).removeprefix("extra.")
    reason = _loss_reason(edit, place, found.losses) or _rule_reason(edit, found)
    return replace(edit, place=place, reason=reason)


def _loss_reason(edit: Edit, place: str, losses: tuple[Loss, ...]) -> str:
    for loss in losses:
        if _covers(loss.what, place):
            return loss.why
    for loss in losses:
        # Losses with the same reason are merged, and only the first place is named.
        if _MERGED.search(loss.why) and _same_field(loss.what, place) and edit.kind != "added":
            return _MERGED.sub("", loss.why)
    return ""


def _covers(what: str, place: str) -> bool:
    return what == place or place.startswith(f"{what}.") or what.startswith(f"{place}.")


def _same_field(what: str, place: str) -> bool:
    one, other = what.split("."), place.split(".")
    if one[0] != other[0]:
        return False
    numbers = one[-1].isdecimal(), other[-1].isdecimal()
    return numbers == (True, True) or one[-1] == other[-1]


def _rule_reason(edit: Edit, found: Comparison) -> str:
    for rule in _RULES:
        if re.fullmatch(rule.place, edit.place) and (rule.check is None or rule.check(edit, found)):
            api = _API_NAMES.get(found.target, found.target)
            client = _API_NAMES.get(found.came.origin, found.came.origin)
            return rule.text.format(api=api, client=client)
    return UNEXPLAINED


# ── checks ───────────────────────────────────────────────────────────────────


def _text_of(value: Json) -> str:
    """Return every text inside a value, without white space."""
    if isinstance(value, str):
        return "".join(value.split())
    if isinstance(value, list):
        return "".join(map(_text_of, value))
    if isinstance(value, dict):
        return "".join(_text_of(value.get(name)) for name in ("text", "content"))
    return ""


def _all_text(request: Request, role: str) -> str:
    """Return the texts that a request has for one role, without white space."""
    found = [text.text for text in request.system] if role == "system" else []
    for turn in request.turns:
        if turn.role == role:
            found += [_part_text(part) for part in turn.content]
    return "".join("".join(found).split())


def _part_text(part: object) -> str:
    text = getattr(part, "text", "")
    inner = getattr(part, "content", ())
    return str(text) + "".join(map(_part_text, inner))


def _still_there(edit: Edit, found: Comparison) -> bool:
    """Whether the text that left this place is elsewhere in the sent request."""
    words = _text_of(edit.before)
    everything = "".join(_all_text(found.sent, role) for role in ("system", "user", "assistant"))
    return bool(words) and words in everything


def _was_there(edit: Edit, found: Comparison) -> bool:
    """Whether the text that came to this place was elsewhere in the client's request."""
    words = _text_of(edit.after)
    everything = "".join(_all_text(found.came, role) for role in ("system", "user", "assistant"))
    return bool(words) and words in everything


def _is_extended(edit: Edit, _: Comparison) -> bool:
    before, after = _text_of(edit.before), _text_of(edit.after)
    return bool(before) and before in after


def _is_removed(edit: Edit, _: Comparison) -> bool:
    return edit.kind == "removed"


def _is_added(edit: Edit, _: Comparison) -> bool:
    return edit.kind == "added"


def _is_marked(edit: Edit, _: Comparison) -> bool:
    after = edit.after if isinstance(edit.after, dict) else {}
    return _MARKED.search(str(after.get("text") or edit.after or "")) is not None


def _is_empty_text(edit: Edit, _: Comparison) -> bool:
    value = edit.before if edit.after is None else edit.after
    return isinstance(value, dict) and value.get("type") == "text" and not _text_of(value)


def _has_value_elsewhere(edit: Edit, found: Comparison) -> bool:
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


def _is_renamed(edit: Edit, found: Comparison) -> bool:
    return found.names.get(str(edit.after)) == edit.before


def _in_prompt(_: Edit, found: Comparison) -> bool:
    return found.tool_mode in {"prompt", "constrained"}


def _is_default(value: Json) -> Check:
    def check(edit: Edit, _: Comparison) -> bool:
        return (edit.before if edit.after is None else edit.after) == value

    return check


def _same_schema(edit: Edit, _: Comparison) -> bool:
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


def _is_excluded(edit: Edit, found: Comparison) -> bool:
    choice = found.came.tool_choice
    name = edit.before.get("name") if isinstance(edit.before, dict) else None
    return choice.mode == "none" or (bool(choice.names) and name not in choice.names)


def _is_sealed(edit: Edit, _: Comparison) -> bool:
    """Whether this is a thought without a text, of which only its provider can read the token."""
    value = edit.before if isinstance(edit.before, dict) else {}
    return value.get("type") == "thinking" and not value.get("text")


def _is_same_call(edit: Edit, found: Comparison) -> bool:
    """Whether the other parts of the call or result still agree."""
    return dumps(edit.before) != dumps(edit.after) and bool(found.sent.turns)


def _is_configured(edit: Edit, found: Comparison) -> bool:
    return edit.place.rpartition(".")[2] in found.options


def _is_billing_line(edit: Edit, _: Comparison) -> bool:
    before = edit.before.get("text") if isinstance(edit.before, dict) else edit.before
    return str(before).startswith(BILLING)


_RULES = (
    _Rule(r"(extra|sampling)\.\w+|max_tokens", "set by `options` of the model", _is_configured),
    _Rule(r"system\.0(\.text)?", "Claude Code's billing line changes with every request, which would "
          "make prompt caches useless", _is_billing_line),
    _Rule(r"model", "the name of the model at its provider"),
    _Rule(r"max_tokens", "{api} requires a limit of output tokens", _is_added),
    _Rule(r"stop", "{api} does not accept it; the answer is searched for it", _is_removed),
    _Rule(r"think\.(mode|budget|effort|show)", "{api} expresses thinking in another way"),
    _Rule(r"tool_choice\..*", "the tools are described in the prompt", _in_prompt),
    _Rule(r"tool_choice\.mode", "it is what happens without it", _is_default("auto")),
    _Rule(r"output\.schema", "the schema is rewritten for what {api} accepts", _same_schema),
    _Rule(r"output\.name", "{api} requires a name for a schema", _is_added),
    _Rule(r"output\.strict", "{api} always enforces a schema", _is_added),
    _Rule(r"output.*", "the schema is in the prompt: {api} has no field for it", _is_removed),
    _Rule(r"session", "{api} has no field for the conversation", _is_removed),
    _Rule(r"(session|user)", "the name of the conversation comes from a header", _is_added),
    _Rule(r"extra\.\w+", "{api} has its own name for the field", _has_value_elsewhere),
    _Rule(r"extra\.truncate", "{api} would cut a long prompt without an error", _is_added),
    _Rule(r"extra\.options", "{api} reserves memory for a context window of this size", _is_added),
    _Rule(r"extra\.stream_options", "asks {api} for the token counts", _is_added),
    _Rule(r"extra\.stream_options", "only {client} has to be asked for token counts", _is_removed),
    _Rule(r"extra\.store", "toolbridge stores responses itself"),
    _Rule(r"extra\.(truncation|include|previous_response_id|background|conversation)",
          "concerns the answer of {client}, which toolbridge writes", _is_removed),
    _Rule(r"extra\.prompt_cache_key", "the name of the conversation comes from a header", _is_added),
    _Rule(r"extra\.prompt_cache_key", "{api} has no field for the conversation", _is_removed),
    _Rule(r"extra\.namespaces", "the namespace is part of the name and the description of its tools", _is_removed),
    _Rule(r"extra\.(service_tier|serviceTier)", "it is what happens without it", _is_default("auto")),
    _Rule(r"system\.\d+.*\.cache|.*\.cache", "{api} caches prefixes by itself", _is_removed),
    _Rule(r"system\.\d+(\.text)?", "hosted tools that the provider does not have are named to the model",
          lambda edit, _: "Not available in this conversation" in dumps(edit.after)),
    _Rule(r"system\.\d+(\.text)?", "the tools are described in the prompt", _in_prompt),
    _Rule(r"system\.\d+(\.text)?", "{api} has one text for the system prompt", _is_extended),
    _Rule(r"system\.\d+", "it is in another text of the system prompt", _still_there),
    _Rule(r"system\.\d+(\.text)?", "an empty text is rejected by {api}", _is_empty_text),
    _Rule(r"system\.\d+(\.text)?", "it is in another place of {client}'s request", _was_there),
    _Rule(r"tools\.\d+", "the tools are described in the prompt", _in_prompt),
    _Rule(r"tools\.\d+", "the tool choice excludes it, which {api} expresses by a shorter list", _is_excluded),
    _Rule(r"tools\.\d+\.(origin|native)", "{api} gets the tool as an ordinary function", _is_removed),
    _Rule(r"tools\.\d+\.origin", "{api} declares the tool in its own way"),
    _Rule(r"tools\.\d+\.freeform", "{api} has no tools with plain text: it gets `input` as the only argument"),
    _Rule(r"tools\.\d+\.schema", "the schema is rewritten for what {api} accepts", _same_schema),
    _Rule(r"tools\.\d+\.deferred", "the tool is offered from the beginning", _is_removed),
    _Rule(r"tools\.\d+\.strict", "{api} would enforce the schema unless it is asked not to", _is_default(False)),
    _Rule(r"tools\.\d+\.namespace", "it is part of the name and the description of the tool", _is_removed),
    _Rule(r"tools\.\d+\.description", "the description begins with the namespace of the tool", _is_added),
    _Rule(r"tools\.\d+\.description", "the description begins with the namespace of the tool", _is_extended),
    _Rule(rf"(tools\.\d+|{_PART})\.name", "{api} does not accept the name", _is_renamed),
    _Rule(rf"{_PART}\.name", "{api} needs the name of the tool beside its result", _is_added),
    _Rule(rf"{_PART}\.name", "{api} finds the tool of a result by the id of its call", _is_removed),
    _Rule(rf"{_PART}\.(id|call_id)", "{api} has other ids of calls", _is_same_call),
    _Rule(rf"{_PART}\.opaque", "only the provider that made it can read it", _is_removed),
    _Rule(rf"{_PART}\.opaque", "{api} needs it to tell the kind of the item", _is_added),
    _Rule(rf"{_PART}\.detail", "{api} has no detail of an image", _is_removed),
    _Rule(_PART, "an encrypted thought can be read only by the API that wrote it", _is_sealed),
    _Rule(rf"{_PART}\.media_type", "{api} finds the type of the file itself", _is_removed),
    _Rule(rf"{_PART}\.media_type", "{api} requires the type of the file", _is_added),
    _Rule(rf"{_PART}(\.text)?", "{api} has no such part: it is named in a text", _is_marked),
    _Rule(_PART, "{api} requires a text beside the parts", _is_empty_text),
    _Rule(rf"{_PART}(\.text|\.content)?", "{api} has one text here", _is_extended),
    _Rule(rf"{_PART}\.content", "{api} has one text here", _still_there),
    _Rule(_PART, "it is in another place of the sent request", _still_there),
    _Rule(_PART, "it was in another place of the client's request", _was_there),
    _Rule(r"turns", "messages of the same role are merged for {api}"),
)  # fmt: skip
