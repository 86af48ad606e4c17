"""Gives every edit of a request its reason.

A reported loss is the first choice: it names the place and the provider's rule. Changes that lose
nothing have a rule here: a pattern of the place, a check of the values, and a text. An edit without
a reason is a defect; `tests/properties/test_explained_edits.py` searches for one.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from toolbridge.core.client_names import client_name
from toolbridge.core.json import dumps
from toolbridge.core.messages import Loss
from toolbridge.explain import reason_checks as check
from toolbridge.explain.edits import Comparison, Edit, find_edits

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


class _Rule(NamedTuple):
    place: str
    text: str
    holds: check.Check | None = None


def explain_edits(found: Comparison, names: Mapping[str, str]) -> list[Edit]:
    """Return every edit with its reason, under the client's names of places (`names`)."""
    return [
        _explained(edit, found, names) for edit in find_edits(found.came, found.sent, found.names)
    ]


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
        if re.fullmatch(rule.place, edit.place) and (rule.holds is None or rule.holds(edit, found)):
            api = _API_NAMES.get(found.target, found.target)
            client = _API_NAMES.get(found.came.origin, found.came.origin)
            return rule.text.format(api=api, client=client)
    return UNEXPLAINED


_RULES = (
    _Rule(r"(extra|sampling)\.\w+|max_tokens", "set by `options` of the model", check.is_configured),
    _Rule(r"system\.0(\.text)?", "Claude Code's billing line changes with every request, which would "
          "make prompt caches useless", check.is_billing_line),
    _Rule(r"model", "the name of the model at its provider"),
    _Rule(r"max_tokens", "{api} requires a limit of output tokens", check.is_added),
    _Rule(r"stop", "{api} does not accept it; the answer is searched for it", check.is_removed),
    _Rule(r"think\.(mode|budget|effort|show)", "{api} expresses thinking in another way"),
    _Rule(r"tool_choice\..*", "the tools are described in the prompt", check.in_prompt),
    _Rule(r"tool_choice\.names", "{api} does not accept the name", check.are_renamed),
    _Rule(r"tool_choice\.parallel", "it is what happens without it", check.is_default(value=True)),
    _Rule(r"tool_choice\.mode", "it is what happens without it", check.is_default("auto")),
    _Rule(r"tool_choice\.mode", "{api} expresses it by offering no tools", check.offers_none),
    _Rule(r"output(\.\w+)?", "the answer is constrained to the schemas of the tools", check.is_constrained),
    _Rule(r"output\.schema", "the schema is rewritten for what {api} accepts", check.same_schema),
    _Rule(r"output\.name", "{api} requires a name for a schema", check.is_added),
    _Rule(r"output\.strict", "{api} always enforces a schema", check.is_added),
    _Rule(r"output.*", "the schema is in the prompt: {api} has no field for it", check.is_removed),
    _Rule(_PART, "it is sent as text or as a call of a function: {api} has no such part",
          check.is_server_part),
    _Rule(r"session", "{api} has no field for the conversation", check.is_removed),
    _Rule(r"(session|user)", "the name of the conversation comes from a header", check.is_added),
    _Rule(r"extra\.\w+", "{api} has its own name for the field", check.has_value_elsewhere),
    _Rule(r"extra\.truncate", "{api} would cut a long prompt without an error", check.is_added),
    _Rule(r"extra\.options", "{api} reserves memory for a context window of this size", check.is_added),
    _Rule(r"extra\.stream_options", "asks {api} for the token counts", check.is_added),
    _Rule(r"extra\.stream_options", "only {client} has to be asked for token counts", check.is_removed),
    _Rule(r"extra\.include", "asks {api} for log probabilities", check.wants_logprobs),
    _Rule(r"extra\.context_management", "it asks to keep everything, which {api} does anyway",
          lambda edit, _: '"keep":"all"' in dumps(edit.before)),
    _Rule(r"extra\.store", "toolbridge stores responses itself"),
    _Rule(r"extra\.(truncation|include|previous_response_id|background|conversation)",
          "concerns the answer of {client}, which toolbridge writes", check.is_removed),
    _Rule(r"extra\.prompt_cache_key", "the name of the conversation comes from a header", check.is_added),
    _Rule(r"extra\.prompt_cache_key", "{api} has no field for the conversation", check.is_removed),
    _Rule(r"extra\.namespaces", "the namespace is part of the name and the description of its tools", check.is_removed),
    _Rule(r"extra\.(service_tier|serviceTier)", "it is what happens without it", check.is_default("auto")),
    _Rule(r"system\.\d+.*\.cache|.*\.cache", "{api} caches prefixes by itself", check.is_removed),
    _Rule(r"system\.\d+(\.text)?", "hosted tools that the provider does not have are named to the model",
          lambda edit, _: "Not available in this conversation" in dumps(edit.after)),
    _Rule(r"system\.\d+(\.text)?", "{api} requires the word JSON in the prompt", check.starts("Answer with JSON")),
    _Rule(r"system\.\d+(\.text)?", "{api} cannot force a call: the system prompt asks for it", check.starts("You must call")),
    _Rule(r"system\.\d+(\.text)?", "the tools are described in the prompt", check.in_prompt),
    _Rule(r"system\.\d+(\.text)?", "{api} has one text for the system prompt", check.is_extended),
    _Rule(r"system\.\d+", "it is in another text of the system prompt", check.still_there),
    _Rule(r"system\.\d+(\.text)?", "an empty text is rejected by {api}", check.is_empty_text),
    _Rule(r"system\.\d+(\.text)?", "it is in another place of {client}'s request", check.was_there),
    _Rule(r"tools\.\d+", "the tools are described in the prompt", check.in_prompt),
    _Rule(r"tools\.\d+", "the tool choice excludes it, which {api} expresses by a shorter list", check.is_excluded),
    _Rule(r"tools\.\d+\.(origin|native)", "{api} gets the tool as an ordinary function", check.is_removed),
    _Rule(r"tools\.\d+\.origin", "{api} declares the tool in its own way"),
    _Rule(r"tools\.\d+\.freeform", "{api} has no tools with plain text: it gets `input` as the only argument"),
    _Rule(r"tools\.\d+\.schema", "the schema is rewritten for what {api} accepts", check.same_schema),
    _Rule(r"tools\.\d+\.deferred", "the tool is offered from the beginning", check.is_removed),
    _Rule(r"tools\.\d+\.strict", "{api} would enforce the schema unless it is asked not to", check.is_default(value=False)),
    _Rule(r"tools\.\d+\.namespace", "it is part of the name and the description of the tool", check.is_removed),
    _Rule(r"tools\.\d+\.description", "the description begins with the namespace of the tool", check.is_added),
    _Rule(r"tools\.\d+\.description", "the description begins with the namespace of the tool", check.is_extended),
    _Rule(rf"(tools\.\d+|{_PART})\.name", "{api} does not accept the name", check.is_renamed),
    _Rule(rf"{_PART}\.name", "{api} needs the name of the tool beside its result", check.is_added),
    _Rule(rf"{_PART}\.name", "{api} finds the tool of a result by the id of its call", check.is_removed),
    _Rule(rf"{_PART}\.(id|call_id)", "{api} has other ids of calls", check.is_same_call),
    _Rule(r"system\.\d+\.opaque", "the system prompt of {api} has no further fields", check.is_removed),
    _Rule(r"extra\.systemInstruction", "the system prompt of {api} has no further fields", check.is_removed),
    _Rule(rf"{_PART}\.opaque", "only the provider that made it can read it", check.is_removed),
    _Rule(rf"{_PART}\.opaque", "{api} needs it to tell the kind of the item", check.is_added),
    _Rule(rf"{_PART}\.detail", "{api} has no detail of an image", check.is_removed),
    _Rule(_PART, "an encrypted thought can be read only by the API that wrote it", check.is_sealed),
    _Rule(rf"{_PART}\.media_type", "{api} finds the type of the file itself", check.is_removed),
    _Rule(rf"{_PART}\.media_type", "{api} requires the type of the file", check.is_added),
    _Rule(rf"{_PART}(\.text)?", "the tools are described in the prompt, and past calls with them", check.is_told),
    _Rule(_PART, "{api} has another order of the parts of a message", check.is_moved),
    _Rule(rf"{_PART}\.text", "{api} has another order of the texts", check.is_reordered),
    _Rule(rf"{_PART}\.content", "the content of the result is elsewhere in the message", check.is_kept),
    _Rule(_PART, "an empty text has no meaning", lambda edit, found: check.is_removed(edit, found) and check.is_empty_text(edit, found)),
    _Rule(rf"{_PART}(\.text|\.content)?", "{api} has no such part: it is named in a text", check.is_marked),
    _Rule(_PART, "{api} requires a text beside the parts", check.is_empty_text),
    _Rule(rf"{_PART}(\.text|\.content)?", "{api} has one text here", check.is_extended),
    _Rule(rf"{_PART}\.content", "{api} has one text here", check.still_there),
    _Rule(rf"{_PART}\.content", "it was in another place of the client's request", check.was_there),
    _Rule(_PART, "it is in another place of the sent request", check.still_there),
    _Rule(_PART, "it was in another place of the client's request", check.was_there),
    _Rule(r"turns", "messages of the same role are merged for {api}"),
)  # fmt: skip
