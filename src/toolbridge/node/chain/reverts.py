"""Why a contract said no, and what to do about it."""

import tomllib
from functools import cache
from importlib.resources import files

import msgspec

from toolbridge.core.errors import BrokenWire, Rejected
from toolbridge.node.chain import abi

_WORDS = abi.selector("Error(string)")
_PANIC = abi.selector("Panic(uint256)")
_PANICS = {0x01: "an assertion", 0x11: "a number out of range", 0x12: "a division by zero",
           0x32: "an index out of range"}  # fmt: skip


class Reverted(Rejected):
    """A contract refused a call; nothing was changed, and no more than gas was spent."""

    def __init__(self, what: str, reason: str, advice: str = "") -> None:
        text = f"{what} was refused: {reason or 'no reason was given'}"
        super().__init__(f"{text}; {advice}" if advice else text)
        self.reason = reason
        self.advice = advice


class RevertTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reasons: dict[str, str]
    errors: dict[str, str]
    refusals: dict[str, str]


@cache
def table() -> RevertTable:
    text = (files(__package__ or "") / "reverts.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), RevertTable)


@cache
def _declared() -> dict[bytes, str]:
    return {abi.selector(signature): signature for signature in table().errors}


def explain(what: str, data: bytes, message: str = "") -> Reverted:
    """Return a revert as an error: from what the contract said, else from the server's words."""
    reason, advice = _from_data(data) if data else ("", "")
    if not reason:
        _, colon, words = message.partition("reverted: ")
        reason = words.strip() if colon else ""
        advice = table().reasons.get(reason, "")
    return Reverted(what, reason[:300], advice)


def _from_data(data: bytes) -> tuple[str, str]:
    signature = _declared().get(data[:4])
    if signature is not None:
        return signature.partition("(")[0], table().errors[signature]
    try:
        if data[:4] == _WORDS:
            reason = str(abi.decode(["string"], data[4:])[0])
            return reason, table().reasons.get(reason, "")
        if data[:4] == _PANIC:
            code = int.from_bytes(data[4:36], "big")
            return f"the contract failed ({_PANICS.get(code, hex(code))})", ""
    except BrokenWire:
        pass
    return f"error {data[:4].hex()}", ""


def advice_on(refusal: str) -> str:
    """Return what to do about a server's refusal; nothing when its words are unknown."""
    words = refusal.lower()
    return next((advice for part, advice in table().refusals.items() if part in words), "")
