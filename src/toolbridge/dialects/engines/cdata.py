"""MiniCPM's grammar: `<function name="NAME"><param name="KEY">VALUE</param></function>`, with CDATA."""

from dataclasses import dataclass

from toolbridge.core.json import Json
from toolbridge.dialects.engines.parameters import ParameterCalls
from toolbridge.dialects.engines.render import raw

_GAPS = (" ", "", "Ġ")
"""The space between tag and attribute: it may be missing, or the tokenizer's `Ġ`."""


@dataclass(frozen=True)
class CdataCalls(ParameterCalls):
    """Parses MiniCPM's tags; a value may be in CDATA."""

    call: tuple[str, ...] = tuple(f"<function{gap}name" for gap in _GAPS)
    call_close: tuple[str, ...] = ("</function>",)
    parameter: tuple[str, ...] = tuple(f"<param{gap}name" for gap in _GAPS)
    parameter_close: tuple[str, ...] = ("</param>",)
    cdata: bool = True


def protected(value: Json) -> str:
    """Return a value in CDATA if it contains `<`, `&` or a line end."""
    written = raw(value)
    return f"<![CDATA[{written}]]>" if any(c in written for c in "<&\n") else written
