"""`<function name="NAME"><param name="KEY">VALUE</param></function>`, values in CDATA or not."""

from dataclasses import dataclass

from toolbridge.core.json import Json
from toolbridge.dialects.engines.parameters import ParameterCalls
from toolbridge.dialects.engines.render import raw

_GAPS = (" ", "", "Ġ")
"""What stands between the tag and its attribute: a tokenizer may lose or disguise the space."""


@dataclass(frozen=True)
class CdataCalls(ParameterCalls):
    call: tuple[str, ...] = tuple(f"<function{gap}name" for gap in _GAPS)
    call_close: tuple[str, ...] = ("</function>",)
    parameter: tuple[str, ...] = tuple(f"<param{gap}name" for gap in _GAPS)
    parameter_close: tuple[str, ...] = ("</param>",)
    cdata: bool = True


def protected(value: Json) -> str:
    """Return a value in CDATA where a tag or a line end could be taken for markup."""
    written = raw(value)
    return f"<![CDATA[{written}]]>" if any(c in written for c in "<&\n") else written
