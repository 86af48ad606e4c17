"""The table `[map]`: names that stand for an address, or for a list of addresses.

A list is a chain: its addresses are tried in order until one of them answers. A value may also be
another name of the map. `follow_map` replaces such names, so that the other packages see addresses.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from toolbridge.core.errors import ConfigError

MapValue: TypeAlias = str | tuple[str, ...]
"""An address or a name; or several, in the order in which they are tried."""


def addresses_of(value: MapValue) -> tuple[str, ...]:
    """Return the addresses of a value of the map."""
    return (value,) if isinstance(value, str) else value


def show_chain(value: MapValue) -> str:
    """Return a value of the map for people."""
    return ", then ".join(addresses_of(value))


def follow_map(
    table: Mapping[str, MapValue], source: str, content: bytes = b""
) -> dict[str, MapValue]:
    """Return the map with every name among its values replaced by what that name stands for.

    Raise `ConfigError` for a cycle and for an empty list; `content` is the file, to name the line.
    """
    found: dict[str, MapValue] = {}
    for name, value in table.items():
        try:
            chain = tuple(dict.fromkeys(_followed(value, table, (name,))))
        except _BadMap as error:
            raise ConfigError(f"{source}: {_line(content, name)}map: {error}") from None
        found[name] = chain if len(chain) > 1 else chain[0]
    return found


class _BadMap(Exception):
    pass


def _followed(
    value: MapValue, table: Mapping[str, MapValue], seen: tuple[str, ...]
) -> Iterator[str]:
    if not all(address.strip() for address in addresses_of(value) or ("",)):
        where = "" if isinstance(value, str) else " in its list"
        raise _BadMap(f"{seen[-1]} has no address{where}; add one, such as 'ollama/qwen3'")
    for address in addresses_of(value):
        # A name that stands for itself is the name of a model: `qwen3 = "qwen3"`.
        if address not in table or address == seen[-1]:
            yield address
        elif address in seen:
            cycle = " → ".join([*seen, address])
            raise _BadMap(f"{cycle} is a cycle; give one of these names an address")
        else:
            yield from _followed(table[address], table, (*seen, address))


def _line(content: bytes, name: str) -> str:
    """Return `line N: ` for the entry `name` of `[map]`; empty where the file does not have it."""
    table = ""
    key = re.compile(rf"""\s*(?:map\s*\.\s*)?["']?{re.escape(name)}["']?\s*=""")
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), 1):
        if header := re.match(r"\s*\[+\s*([^\]]*?)\s*\]", line):
            table = header[1]
        elif table in {"map", ""} and key.match(line):
            return f"line {number}: "
    return ""
