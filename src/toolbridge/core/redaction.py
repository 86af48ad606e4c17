"""Removes secrets from everything that is written to disks, logs and metrics.

`Redactor` accepts any Python value: structs, tuples, sets and bytes become JSON, and a value of an
unknown type becomes redacted text. A secret is a configured key in any spelling (`core.masking`), a
text with the shape of a key (`core.secret_patterns`), or the value of a member with the name of a
secret. Redaction is idempotent. Artifacts, the store, the request log and the metrics use it.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import NamedTuple, NewType

import msgspec

from toolbridge.core.json import Json, JsonObject, dump_bytes, dumps, loads
from toolbridge.core.masking import MASK, secrets_pattern
from toolbridge.core.secret_containers import find_containers
from toolbridge.core.secret_patterns import (
    Edit,
    find_secrets,
    has_signs,
    is_secret_name,
    settled_length,
)

__all__ = ["MASK", "Redacted", "Redactor", "is_secret_name"]

Redacted = NewType("Redacted", bytes)
"""Bytes without secrets. Only `Redactor` makes them, and files contain nothing else."""

_PASSES = 8
"""How often to search again: masking one secret can reveal the beginning of another."""
_SCHEMA_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_SCHEMA_VALUES = frozenset({"default", "const", "enum", "example", "examples"})
"""Members of a JSON Schema whose values may be secrets."""
_DEEPEST = 200


class Redactor:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Redact text with the shape or name of a secret, and `secrets` anywhere."""
        secrets = list(secrets)
        self._given = secrets_pattern(secrets)
        self._has_spaces = any(
            " " in secret.strip() or "\t" in secret.strip() for secret in secrets
        )

    def settled(self, text: str) -> int:
        """Return how many characters of a line can be redacted before the rest of it is known."""
        return 0 if self._has_spaces else settled_length(text)

    def text(self, text: str) -> str:
        """Return `text` without secrets."""
        return self._redacted(text, [])[0]

    def is_plain(self, text: str) -> bool:
        """Whether `text` contains neither a secret nor a name that makes the text after it one."""
        return not has_signs(text) and (self._given is None or self._given.search(text) is None)

    def json(self, value: object) -> Redacted:
        """Return any value as JSON without secrets."""
        return Redacted(dump_bytes(self.value(value)))

    def encoded(self, data: bytes) -> Redacted:
        """Return JSON, MessagePack or text without secrets, in the same format."""
        try:
            return self.json(loads(data))
        except ValueError:
            pass
        try:
            value = msgspec.msgpack.decode(data)
        except (msgspec.DecodeError, ValueError):
            return Redacted(self.text(data.decode("utf-8", "replace")).encode())
        return Redacted(msgspec.msgpack.encode(self.value(value, packed=True)))

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return the pieces of one text without the secrets of the whole text.

        A secret in several pieces is masked in the first and removed from the others.
        """
        marks = [0]
        for piece in pieces:
            marks.append(marks[-1] + len(piece))
        text, marks = self._redacted("".join(pieces), marks)
        return [text[start:end] for start, end in pairwise(marks)]

    def json_pieces(self, pieces: Sequence[str]) -> list[str]:
        """Like `pieces`, for JSON text: its members are also redacted by their names."""
        redacted = self.pieces(pieces)
        joined = "".join(redacted)
        if (better := self._parsed(joined)) is not None:
            return [better, *("" for _ in redacted[1:])]
        return redacted

    def value(
        self, value: object, *, secret: bool = False, packed: bool = False, depth: int = 0
    ) -> Json:
        """Return any value as JSON without secrets; with `secret`, everything in it is one.

        `packed` keeps bytes as bytes, for MessagePack.
        """
        if isinstance(value, str):
            return MASK if secret and value else self._string(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return MASK if secret else value
        if depth > _DEEPEST:
            return MASK
        inner = _Inner(self, secret, packed, depth + 1)
        if isinstance(value, Mapping):
            return inner.members(value)
        if isinstance(value, list | tuple | AbstractSet):
            return [inner.item(item) for item in value]
        if isinstance(value, bytes | bytearray | memoryview):
            return inner.data(bytes(value))
        return inner.other(value)

    def _string(self, text: str) -> str:
        redacted = self._redacted(text, [], lines=False)[0]
        return self._parsed(redacted) or redacted

    def _parsed(self, text: str) -> str | None:
        """Return JSON text without the secrets that only parsing reveals; None where it has none."""
        if text.lstrip()[:1] not in {"{", "["}:
            return None
        try:
            value = loads(text)
        except ValueError:
            return None
        redacted = self.value(value)
        return None if redacted == value else dumps(redacted)

    def _redacted(
        self, text: str, marks: list[int], *, lines: bool = True
    ) -> tuple[str, list[int]]:
        for _ in range(_PASSES):
            if not (edits := self._edits(text, lines=lines)):
                break
            changed, marks = _apply(text, edits, marks)
            if changed == text:
                break
            text = changed
        return text, marks

    def _edits(self, text: str, *, lines: bool) -> list[Edit]:
        found: list[Edit] = []
        if has_signs(text):
            found += find_secrets(text)
            found += find_containers(text, self._whole, lines=lines)
        if self._given is not None:
            found += [(*match.span(), MASK) for match in self._given.finditer(text)]
        return _merged(found) if found else found

    def _whole(self, value: Json) -> Json:
        return self.value(value, secret=True)


class _Inner(NamedTuple):
    """Redacts the contents of an object or a list."""

    redactor: Redactor
    secret: bool
    packed: bool
    depth: int

    def item(self, value: object, *, secret: bool = False) -> Json:
        return self.redactor.value(
            value, secret=self.secret or secret, packed=self.packed, depth=self.depth
        )

    def members(self, members: Mapping[object, object]) -> JsonObject:
        # A schema that describes a password contains none, apart from its default and its examples.
        schema = self.secret and _is_schema(members)
        inner = self._replace(secret=False) if schema else self
        named = _names_a_secret(members)
        return {
            self.redactor.text(str(name)): inner.item(
                item,
                secret=is_secret_name(str(name))
                or (schema and name in _SCHEMA_VALUES)
                or (named and name == "value"),
            )
            for name, item in members.items()
        }

    def data(self, data: bytes) -> Json:
        redacted = self.redactor.encoded(MASK.encode() if self.secret else data)
        if self.packed:
            return redacted  # type: ignore[return-value]  # MessagePack has bytes
        return redacted.decode("utf-8", "replace")

    def other(self, value: object) -> Json:
        """Return a struct, a date or another value as JSON where possible, otherwise as text."""
        try:
            plain = msgspec.to_builtins(value, str_keys=True)
        except (TypeError, ValueError):
            plain = str(value)
        return self.item(str(value) if type(plain) is type(value) else plain)


def _is_schema(members: Mapping[object, object]) -> bool:
    kind = members.get("type")
    kinds = kind if isinstance(kind, list | tuple) else [kind]
    if all(isinstance(name, str) and name in _SCHEMA_TYPES for name in kinds):
        return True
    choices = (members.get(word) for word in ("anyOf", "oneOf", "allOf", "enum"))
    reference = members.get("$ref")
    return any(isinstance(choice, list | tuple) for choice in choices) or (
        isinstance(reference, str) and reference.startswith("#")
    )


def _names_a_secret(members: Mapping[object, object]) -> bool:
    """Whether these are the name and the value of a secret header or variable."""
    name = members.get("name", members.get("key"))
    return "value" in members and isinstance(name, str) and is_secret_name(name)


def _merged(edits: list[Edit]) -> list[Edit]:
    """Return `edits` in their order, with overlapping ones merged."""
    merged: list[Edit] = []
    for start, end, mask in sorted(edits):
        if merged and start < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(end, before[1]), before[2])
        else:
            merged.append((start, end, mask))
    return merged


def _apply(text: str, edits: list[Edit], marks: list[int]) -> tuple[str, list[int]]:
    """Return `text` after `edits`, and the new positions of `marks`: one inside an edit moves to its end."""
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
