"""Secrets out of what is written down.

A secret is known by its look (`sk-…`, `gsk_…`), by what stands before it (`Bearer …`, `?key=…`,
`"api_key": …`, `name:password@`), by the name of the member that holds it, or because it was given
as one. No secret reaches over the end of a line, so text may be redacted line by line. What was
redacted once is not changed again.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.masking import MASK, secrets_pattern

_PASSES = 8
"""A mask can uncover a beginning that a letter hid; more rounds than this nobody writes by chance."""
_SHORTEST = 6
"""Characters after `sk-` that make it a key without a digit in it."""

Edit: TypeAlias = tuple[int, int, str]
"""From where to where, and what stands there instead."""

# Keys of other places, that nothing else looks like.
_PREFIXES = r"gsk_|csk[-_]|rk_|xai-|hf_|r8_|fw_|nvapi-|tgp_v1_|gh[opsu]_|github_pat_|glpat-|xox[abp]-|AIza|AKIA"
# Not inside a word; but the letter of an escape in JSON that nobody has read yet is none of a word.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4}))"
_LOOKS = re.compile(
    rf"{_START}(?:(?P<sk>[sp]k[-_][A-Za-z0-9_-]{{3,}})|(?:{_PREFIXES})[A-Za-z0-9_-]{{12,}}"
    r"|eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,})"
)
_NAMES = (
    r"(?:api|access|secret|private|account)[-_]?key(?:[-_]id)?|authorization|pass(?:word|wd|phrase)"
    r"|secret|token|cookie|credentials?"
)
_NAMED = re.compile(
    # The name, its closing quote, a colon, and a value: a JSON string, one in quotes that are
    # themselves escaped, or a bare one.
    rf"(?i)(?:{_NAMES})(?P<close>\\{{0,4}}[\"'])?[ \t]{{0,4}}[:=][ \t]{{0,4}}"
    r"(?:\"(?P<string>[^\"\\\n]*(?:\\[^\n][^\"\\\n]*)*)"
    r"|(?P<quote>\\{1,4}\"|\\{0,4}')(?P<quoted>[^\n]*?)(?=(?<!\\)(?P=quote)|\n|\Z)"
    r"|(?!(?:null|true|false|none)\b)"
    r"(?P<bare>(?:(?:Bearer|Basic|Token|Digest|ApiKey)[ \t]{1,4})?[^\s\"'\\,;&<>{}\[\]()]+))"
)
_BEARER = re.compile(rf"(?i){_START}bearer[ \t]{{1,4}}(?P<value>[a-z0-9._~+/=-]+)")
_PARAMETER = re.compile(
    r"(?i)[?&](?:key|api[-_]?key|token|sig|signature|access_token|auth|password)="
    r"(?P<value>[^\s\"'\\&#<>{}\[\](),;]+)"
)
_LOGIN = re.compile(r"://(?P<value>[^\s/@:\[\]\"'<>]{0,256}:[^\s/@\[\]\"'<>]{1,256})@")
_SECRET_NAME = re.compile(rf"(?i)(?:{_NAMES})\Z")
_SCHEMA_WORDS = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"})


class Redactor:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Redact what looks like a secret, and `secrets` wherever they stand."""
        self._given = secrets_pattern(secrets)

    def text(self, text: str) -> str:
        """Return `text` without secrets."""
        return self._redacted(text, [])[0]

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return the pieces of one text without the secrets of the whole.

        A secret that was cut is redacted in the piece in which it begins, and gone from the others.
        """
        marks = [0]
        for piece in pieces:
            marks.append(marks[-1] + len(piece))
        text, marks = self._redacted("".join(pieces), marks)
        return [text[start:end] for start, end in pairwise(marks)]

    def value(self, value: Json, *, secret: bool = False) -> Json:
        """Return `value` without secrets; all of it is one where `secret`."""
        if isinstance(value, str):
            return MASK if secret and value else self.text(value)
        if isinstance(value, list):
            return [self.value(item, secret=secret) for item in value]
        if isinstance(value, dict):
            # The schema of a password is none.
            secret = secret and not _SCHEMA_WORDS & value.keys()
            return self._members(value, secret=secret)
        return MASK if secret and value is not None and not isinstance(value, bool) else value

    def _members(self, members: JsonObject, *, secret: bool) -> JsonObject:
        return {
            self.text(name): self.value(item, secret=secret or is_secret_name(name))
            for name, item in members.items()
        }

    def _redacted(self, text: str, marks: list[int]) -> tuple[str, list[int]]:
        for _ in range(_PASSES):
            edits = self._edits(text)
            changed, marks = _apply(text, edits, marks)
            if changed == text:
                break
            text = changed
        return text, marks

    def _edits(self, text: str) -> list[Edit]:
        found = [*_by_look(text), *_by_name(text), *_bearers(text)]
        for pattern in (_PARAMETER, _LOGIN):
            found += [(*match.span("value"), MASK) for match in pattern.finditer(text)]
        if self._given is not None:
            found += [(*match.span(), MASK) for match in self._given.finditer(text)]
        return _merged(found)


def redact(value: Json, secrets: Iterable[str] = ()) -> Json:
    """Return `value` without secrets."""
    return Redactor(secrets).value(value)


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Return `text` without secrets."""
    return Redactor(secrets).text(text)


def is_secret_name(name: str) -> bool:
    """Whether a member of this name holds a secret: `x-api-key`, `githubToken`, not `max_tokens`."""
    return _SECRET_NAME.search(name) is not None


def _by_look(text: str) -> Iterable[Edit]:
    for match in _LOOKS.finditer(text):
        if match["sk"] is None or _is_key(match["sk"]):
            yield *match.span(), MASK


def _is_key(found: str) -> bool:
    """Whether it is a key and no word: neither `sk-learn` nor the language `sk-SK`."""
    rest = found[3:]
    return found.startswith("sk_") or len(rest) >= _SHORTEST or any(c.isdigit() for c in rest)


def _by_name(text: str) -> Iterable[Edit]:
    for match in _NAMED.finditer(text):
        if match["bare"] is not None:
            # A bare number in JSON becomes a text, so that JSON stays JSON.
            quote = match["close"] or ""
            yield *match.span("bare"), f"{quote}{MASK}{quote}"
            continue
        kind = "string" if match["quoted"] is None else "quoted"
        if match[kind]:
            yield *match.span(kind), MASK


def _bearers(text: str) -> Iterable[Edit]:
    for match in _BEARER.finditer(text):
        value = match["value"].rstrip(".")
        # The bearer of bad news, bearer bonds and a bearer token are no secrets.
        if len(value) >= 16 or not value[1:].isalpha() or not value[1:].islower():
            yield *match.span("value"), MASK


def _merged(edits: list[Edit]) -> list[Edit]:
    """Return `edits` in order, those that overlap as one."""
    merged: list[Edit] = []
    for start, end, mask in sorted(edits):
        if merged and start < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(end, before[1]), before[2])
        else:
            merged.append((start, end, mask))
    return merged


def _apply(text: str, edits: list[Edit], marks: list[int]) -> tuple[str, list[int]]:
    """Return `text` after `edits`, and where `marks` are then: one in an edit is behind it."""
    parts: list[str] = []
    moved: list[int] = []
    at = shift = 0
    waiting = iter([*marks, len(text) + 1])
    mark = next(waiting)
    for start, end, mask in edits:
        parts += (text[at:start], mask)
        while mark <= start:
            moved.append(mark + shift)
            mark = next(waiting)
        shift += len(mask) - (end - start)
        while mark < end:
            moved.append(end + shift)
            mark = next(waiting)
        at = end
    while mark <= len(text):
        moved.append(mark + shift)
        mark = next(waiting)
    return "".join((*parts, text[at:])), moved
