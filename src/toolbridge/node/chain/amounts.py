"""Amounts of money: decimal text for people, whole numbers of the smallest unit for contracts."""

import re

from toolbridge.core.errors import ConfigError

ETHER = 18
"""Decimals of the chain's own coin: 1 ETH is 10**18 wei."""

_DECIMAL = re.compile(r"(\d{1,30})(?:\.(\d{1,30}))?")


def parse_amount(text: str, decimals: int, name: str = "an amount") -> int:
    """Return a decimal such as `0.0002` in the smallest unit; raise `ConfigError` if malformed."""
    found = _DECIMAL.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{name} must be a decimal number such as 0.0002, not {text!r}")
    fraction = (found[2] or "").rstrip("0")
    if len(fraction) > decimals:
        raise ConfigError(f"{name} must have at most {decimals} decimal places, not {text!r}")
    return int(found[1] + fraction.ljust(decimals, "0"))


def format_amount(amount: int, decimals: int) -> str:
    """Return an amount of the smallest unit as a decimal."""
    whole, fraction = divmod(amount, 10**decimals)
    digits = f"{fraction:0{decimals}d}".rstrip("0") if decimals else ""
    return f"{whole}.{digits}" if digits else str(whole)
