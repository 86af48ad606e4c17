"""Money as people write it and as contracts count it."""

import re

from toolbridge.core.errors import ConfigError

ETHER = 18

_DECIMAL = re.compile(r"(\d{1,30})(?:\.(\d{1,30}))?")


def parse_amount(text: str, decimals: int, name: str = "an amount") -> int:
    """Return `0.0002` in the smallest unit; raise `ConfigError` for what is no such amount."""
    found = _DECIMAL.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{name} is written like 0.0002, not {text!r}")
    fraction = (found[2] or "").rstrip("0")
    if len(fraction) > decimals:
        raise ConfigError(f"{name} has at most {decimals} digits behind the point, not {text!r}")
    return int(found[1] + fraction.ljust(decimals, "0"))


def format_amount(amount: int, decimals: int) -> str:
    whole, fraction = divmod(amount, 10**decimals)
    digits = f"{fraction:0{decimals}d}".rstrip("0") if decimals else ""
    return f"{whole}.{digits}" if digits else str(whole)
