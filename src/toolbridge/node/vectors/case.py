"""One entry of a vector file, and the comparison of its fields with our values."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import Json, JsonObject
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.protocol.messages import Payload

Check: TypeAlias = tuple[str, Json, Json]
"""The name, our value and the expected value of a comparison."""
Checks: TypeAlias = Iterator[Check]


class VectorCase:
    """A JSON object of a vector file, with typed access to its fields."""

    def __init__(self, value: Json) -> None:
        self.fields: JsonObject = value if isinstance(value, dict) else {}

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise TypeError(f"{name} is not a string")
        return value

    def number(self, name: str) -> int:
        value = self.fields.get(name)
        if not isinstance(value, int):
            raise TypeError(f"{name} is not a whole number")
        return value

    def hex(self, name: str) -> bytes:
        return bytes.fromhex(self.text(name).removeprefix("0x"))

    def secret(self, name: str) -> Secret:
        return Secret.from_hex(self.text(name))

    def inner(self, name: str) -> "VectorCase":
        return VectorCase(self.fields.get(name))

    def payload(self) -> Payload:
        """Return the encrypted payload, which may be inside a message."""
        inside = self.inner("message") if "message" in self.fields else self
        return msgspec.convert(inside.fields.get("payload"), Payload)

    def agree(self, **ours: Json) -> Checks:
        """Compare our values with the fields of the vector; missing fields are skipped."""
        for name, value in ours.items():
            if name in self.fields:
                yield name, value, self.fields[name]


def numbered(value: Json) -> list[tuple[str, VectorCase]]:
    """Return the entries of a list or an object, each with its name or index."""
    if isinstance(value, dict):
        return [(name, VectorCase(entry)) for name, entry in value.items()]
    entries = [VectorCase(entry) for entry in value] if isinstance(value, list) else []
    return [(str(case.fields.get("name", n)), case) for n, case in enumerate(entries)]


def guarded(label: str, check: Callable[[VectorCase], Checks], case: VectorCase) -> Checks:
    """Yield the checks of one entry; an exception is a failed check."""
    try:
        for name, got, right in check(case):
            yield f"{label} {name}", got, right
    except (ToolbridgeError, ValueError, TypeError, KeyError) as error:
        yield label, f"{type(error).__name__}: {error}", "no error"


def each(check: Callable[[VectorCase], Checks]) -> Callable[[Json], Checks]:
    """Return a check of all entries, made of a check of one."""

    def check_all(value: Json) -> Checks:
        for label, case in numbered(value):
            yield from guarded(label, check, case)

    return check_all


def one(check: Callable[[VectorCase], Checks]) -> Callable[[Json], Checks]:
    """Return a check of a kind with a single entry."""
    return lambda value: check(VectorCase(value))
