"""Revert reasons of contracts and rejections of servers, with advice from `reverts.toml`.

A contract reverts with a string (`Error(string)`), a declared error, or a panic code. `ChainClient` uses
`explain` to make a `Reverted` of each.
"""

import tomllib
from functools import cache
from importlib.resources import files

import msgspec

from toolbridge.core.errors import BrokenWire, Rejected
from toolbridge.core.printable import printable
from toolbridge.node.chain import abi

_ERROR = abi.selector("Error(string)")
_PANIC = abi.selector("Panic(uint256)")
_PANICS = {0x01: "assertion failed", 0x11: "arithmetic overflow", 0x12: "division by zero",
           0x32: "index out of range"}  # fmt: skip


class Reverted(Rejected):
    """A contract reverted a call: no state changed, and at most gas was spent."""

    def __init__(self, what: str, reason: str, advice: str = "") -> None:
        reason = printable(reason)
        text = f"the call {what} was rejected: {reason or 'no reason given'}"
        super().__init__(f"{text}; {advice}" if advice else text)
        self.reason = reason
        self.advice = advice
        self.in_block = False
        """Whether a block includes the failed transaction, so that its gas is spent."""


class RevertTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Advice by revert reason, by declared error, and by part of a server's message."""

    reasons: dict[str, str]
    errors: dict[str, str]
    rejections: dict[str, str]


@cache
def table() -> RevertTable:
    """Return the content of `reverts.toml`."""
    text = (files(__package__ or "") / "reverts.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), RevertTable)


@cache
def _declared() -> dict[bytes, str]:
    return {abi.selector(signature): signature for signature in table().errors}


def explain(what: str, data: bytes, message: str = "") -> Reverted:
    """Return a revert as an error: from its data, else from the server's message."""
    reason, advice = _from_data(data) if data else ("", "")
    if not reason:
        _, colon, text = message.partition("reverted: ")
        reason = text.strip() if colon else ""
        advice = table().reasons.get(reason, "")
    return Reverted(what, reason[:300], advice)


def _from_data(data: bytes) -> tuple[str, str]:
    signature = _declared().get(data[:4])
    if signature is not None:
        return signature.partition("(")[0], table().errors[signature]
    try:
        if data[:4] == _ERROR:
            reason = str(abi.decode(["string"], data[4:])[0])
            return reason, table().reasons.get(reason, "")
        if data[:4] == _PANIC:
            code = int.from_bytes(data[4:36], "big")
            return f"panic in the contract ({_PANICS.get(code, hex(code))})", ""
    except BrokenWire:
        pass
    return f"error {data[:4].hex()}", ""


def advice_on(message: str) -> str:
    """Return advice for a server's rejection; empty if its message is unknown."""
    lowered = message.lower()
    return next((advice for part, advice in table().rejections.items() if part in lowered), "")
