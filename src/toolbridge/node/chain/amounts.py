"""Amounts of money: decimal text for people, whole numbers of the smallest unit for contracts."""

import re
from dataclasses import dataclass

from toolbridge.core.errors import ConfigError
from toolbridge.node.chain.contracts import NATIVE
from toolbridge.setting_errors import shorten

ETHER = 18
"""Decimals of the chain's own coin: 1 ETH is 10**18 wei."""

_DECIMAL = re.compile(r"([0-9]+)(?:\.([0-9]+))?")
_MOST_DIGITS = 12
"""Digits before the point: more than there is of any currency that pays for sessions."""


def parse_amount(text: str, decimals: int, name: str = "an amount") -> int:
    """Return a decimal such as `0.0002` in the smallest unit; raise `ConfigError` if malformed."""
    found = _DECIMAL.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{name} must be a decimal number such as 0.0002, not {shorten(text)}")
    whole = found[1].lstrip("0")
    if len(whole) > _MOST_DIGITS:
        raise ConfigError(
            f"{name} is too large: {shorten(text)}; the largest amount has {_MOST_DIGITS} digits "
            "before the point"
        )
    fraction = (found[2] or "").rstrip("0")
    if len(fraction) > decimals:
        raise ConfigError(
            f"{name} must have at most {decimals} decimal places, not {shorten(text)}"
        )
    return int((whole or "0") + fraction.ljust(decimals, "0"))


def format_amount(amount: int, decimals: int) -> str:
    """Return an amount of the smallest unit as a decimal."""
    whole, fraction = divmod(amount, 10**decimals)
    digits = f"{fraction:0{decimals}d}".rstrip("0") if decimals else ""
    return f"{whole}.{digits}" if digits else str(whole)


@dataclass(frozen=True)
class Currency:
    """A currency in which sessions are paid: the chain's own coin, or a token."""

    address: str
    """The address of the token; `NATIVE` for the chain's own coin."""
    decimals: int
    symbol: str

    def format(self, amount: int) -> str:
        """Return an amount with its currency, such as `0.0002 ETH`."""
        sign = "-" if amount < 0 else ""
        return f"{sign}{format_amount(abs(amount), self.decimals)} {self.symbol}"


ETH = Currency(NATIVE, ETHER, "ETH")
