"""Compares the prompts of two requests of a conversation, for prompt caches.

Providers and model servers reuse the part of a prompt that is the same as before: tools, system
prompt and messages, in this order. `compare_prompts` finds the first part that changed. Cache marks
are not part of the prompt and are left out.
"""

from collections.abc import Callable, Iterator

import msgspec

from toolbridge.core.json import Json, JsonObject, dumps

_TOOLS = ("tools",)
_SYSTEM = ("system", "systemInstruction", "instructions")
_MESSAGES = ("messages", "contents", "input")
_MARKS = frozenset({"cache_control", "cachePoint", "prompt_cache_breakpoint"})
# Anthropic, prompt caching: a change of these makes the cached messages invalid.
_SETTINGS = ("model", "tool_choice", "toolConfig", "thinking", "reasoning", "reasoning_effort")
_CHARACTERS = 4
"""Characters per token where the provider has not reported its count."""
_SHOWN = 60


class Prefix(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a prompt is the same as in an earlier request."""

    against: str
    """The id of the earlier request."""
    unchanged_parts: int
    of_parts: int
    unchanged_messages: int
    of_messages: int
    tokens: int
    """The estimated tokens of the unchanged prefix."""
    characters: int
    """The characters of the unchanged prefix, as JSON."""
    extends: bool = False
    """Whether the earlier prompt is unchanged, and this one only adds to its end."""
    place: str = ""
    """The first part that changed, as a path in the sent request."""
    before: str = ""
    after: str = ""
    settings: tuple[str, ...] = ()
    """Changed fields that are not part of the prompt, but make a provider's cache invalid."""

    @property
    def sentence(self) -> str:
        if self.extends:
            how = "prefix unchanged: the whole prompt of the earlier request, "
            how += f"{self.unchanged_messages} of {self.of_messages} messages"
        else:
            how = f"prefix unchanged up to message {self.unchanged_messages} of {self.of_messages}"
        where = f"; the first change is at {self.place}" if self.place else ""
        also = f"; also changed: {', '.join(self.settings)}" if self.settings else ""
        return f"{how}, about {self.tokens} tokens{where}{also}"


class _PromptPart(msgspec.Struct, frozen=True):
    place: str
    text: str


def compare_prompts(
    before: JsonObject,
    after: JsonObject,
    id: str,
    tokens: int = 0,
    redact: Callable[[str], str] = str,
) -> Prefix:
    """Return the prefix of `after` that `before`, the request `id`, had too.

    `tokens` is the number of input tokens of `after`, where it is known. The shown parts of texts
    pass `redact` as a whole, because half a secret has no shape.
    """
    old, new = list(_parts(before)), list(_parts(after))
    same = _common(old, new)
    inside = _common_text(old[same].text, new[same].text) if same < min(len(old), len(new)) else 0
    characters = sum(len(part.text) for part in new[:same]) + inside
    total = sum(len(part.text) for part in new)
    share = tokens / total if tokens and total else 1 / _CHARACTERS
    changed = same < len(old)
    was = redact(old[same].text) if changed else ""
    now = redact(new[same].text) if changed and same < len(new) else ""
    at = _common_text(was, now)
    return Prefix(
        against=id,
        unchanged_parts=same,
        of_parts=len(new),
        unchanged_messages=_messages(new[:same]),
        of_messages=_messages(new),
        tokens=round(characters * share),
        characters=characters,
        extends=not changed,
        place=(new[same].place if same < len(new) else old[same].place) if changed else "",
        before=_shown(was, at),
        after=_shown(now, at),
        settings=tuple(name for name in _SETTINGS if before.get(name) != after.get(name)),
    )


def _parts(body: JsonObject) -> Iterator[_PromptPart]:
    for names in (_TOOLS, _SYSTEM, _MESSAGES):
        for name in names:
            value = body.get(name)
            if isinstance(value, list):
                yield from (_part(f"{name}.{n}", item) for n, item in enumerate(value))
            elif value:
                yield _part(name, value)


def _part(place: str, value: Json) -> _PromptPart:
    return _PromptPart(place, dumps(_unmarked(value)))


def _unmarked(value: Json) -> Json:
    """Return a part without cache marks; a text alone is the same as a list of one text."""
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name not in _MARKS}
    if isinstance(value, list):
        if len(value) == 1 and isinstance(only := value[0], dict):
            bare = {name: item for name, item in only.items() if name not in _MARKS}
            if bare.keys() == {"type", "text"}:
                return bare["text"]
        return [_unmarked(item) for item in value]
    return value


def _common(old: list[_PromptPart], new: list[_PromptPart]) -> int:
    same = 0
    for one, other in zip(old, new, strict=False):
        if one.text != other.text:
            break
        same += 1
    return same


def _common_text(one: str, other: str) -> int:
    most = min(len(one), len(other))
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _messages(parts: list[_PromptPart]) -> int:
    return sum(part.place.startswith(_MESSAGES) for part in parts)


def _shown(text: str, at: int) -> str:
    """Return the text around the first change."""
    start = max(0, at - _SHOWN)
    cut = text[start : at + _SHOWN]
    return f"{'…' if start else ''}{cut}{'…' if at + _SHOWN < len(text) else ''}"
