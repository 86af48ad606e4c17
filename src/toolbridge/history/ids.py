"""Replaces call ids that the target rejects.

Anthropic: `tool_use.id` matches `^[a-zA-Z0-9_-]+$`. OpenAI: at most 40 characters in chat, 64 in
Responses. Mistral: exactly nine letters and digits. A new id is a hash of the old one, so a call and
its result stay paired and every request of a conversation gets the same ids. No way back is needed:
the next answer has ids of its own.
"""

import re
from base64 import b32encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from msgspec.structs import replace

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Call, Part, Result, Turn
from toolbridge.core.prefix_memo import PrefixMemo

_PAIRED = (Call, Result)


def legal_ids(turns: Sequence[Turn], rules: Rules) -> Sequence[Turn]:
    """Return `turns` with every id that breaks the rules replaced."""
    legal = _replaced.after(turns, rules, {}, _with_replaced)
    if not legal:
        return turns
    return [replace(turn, content=tuple(_part(p, legal) for p in turn.content)) for turn in turns]


_replaced: PrefixMemo[dict[str, str]] = PrefixMemo()


def _with_replaced(before: dict[str, str], turns: Sequence[Turn], rules: Rules) -> dict[str, str]:
    """Return the new ids by those that break the rules, with those of more turns."""
    ids = {
        part.id if isinstance(part, Call) else part.call_id
        for turn in turns
        for part in turn.content
        if isinstance(part, _PAIRED)
    }
    found = {id: new for id in ids if (new := legal_id(id, rules)) != id}
    return before | found if found else before


def _part(part: Part, legal: dict[str, str]) -> Part:
    if isinstance(part, Call):
        return replace(part, id=legal.get(part.id, part.id))
    if isinstance(part, Result):
        return replace(part, call_id=legal.get(part.call_id, part.call_id))
    return part


def legal_id(id: str, rules: Rules) -> str:
    """Return `id` if the rules allow it, else a valid id derived from it."""
    if _fits(id, rules):
        return id
    digits = _digits(id)
    whole = f"call_{digits}"
    # Mistral accepts exactly nine letters and digits.
    return whole if _fits(whole, rules) else digits[: rules.id_length or None]


def fresh_id(id: str, occurrence: int) -> str:
    """Return an id for a call whose id is empty or occurs for the nth time."""
    return f"call_{_digits(f'{id}#{occurrence}')}"


def _fits(id: str, rules: Rules) -> bool:
    short_enough = not rules.id_length or len(id) <= rules.id_length
    return short_enough and compiled(rules.id_pattern).fullmatch(id) is not None


@lru_cache(maxsize=64)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern of `Rules`, compiled."""
    return re.compile(pattern)


def _digits(id: str) -> str:
    """Return a hash of `id` as 24 lower-case letters and digits."""
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=15).digest()
    return b32encode(digest).decode().lower()
