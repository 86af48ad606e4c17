"""Which model a name means."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TypeAlias

from toolbridge.core.errors import UnknownModel

TIERS = ("opus", "sonnet", "haiku", "fable", "mythos")
_SEPARATORS = "/,@:"
# A context mark, then a date or "latest": `claude-sonnet-4-5-20250929[1m]`, `gpt-5-2025-08-07`.
_SUFFIX = re.compile(r"(?:[-@](?:20\d{6}|20\d{2}-\d{2}-\d{2}|latest)|:latest)$")

Known: TypeAlias = Callable[[str], bool] | Collection[str]


def resolve(name: str, table: Mapping[str, str], known: Known, default: str = "") -> str:
    """Return the address of the model that `name` means; raise `UnknownModel` when it means none.

    An exact entry of the table comes first, then a name that a provider knows, then an alias, the
    tier that the name speaks of (a client asks for some opus, the table says which), the default.
    """
    if name in table:
        return table[name]
    if known(name) if callable(known) else name in known:
        return name
    names = () if callable(known) else known
    found = _alias(name, table, names) or _tier(name, table) or default
    if not found:
        raise UnknownModel(_explain(name, [*table, *names]), where="model")
    return found


def split_address(name: str, providers: Collection[str]) -> tuple[str, str]:
    """Return provider and model of `provider/model`, `,`, `@` or `:`; the provider may be empty.

    Only a configured provider counts: in `qwen3:8b` the first word is a model, not a place.
    """
    for separator in _SEPARATORS:
        provider, _, model = name.partition(separator)
        if provider in providers and model:
            return provider, model
    return "", name


def _alias(name: str, table: Mapping[str, str], names: Iterable[str]) -> str:
    addresses = {_plain(entry): entry for entry in names}
    addresses |= {_plain(entry): address for entry, address in table.items()}
    plain = _plain(name)
    # Clients list only models that are called claude, so ours are offered under such names too.
    return addresses.get(plain) or addresses.get(plain.removeprefix("claude-"), "")


def _plain(name: str) -> str:
    """Return `name` without case, date, `-latest` and the mark of a large context."""
    return _SUFFIX.sub("", name.strip().lower().removesuffix("[1m]"))


def _tier(name: str, table: Mapping[str, str]) -> str:
    lowered = name.lower()
    return next((table[tier] for tier in TIERS if tier in lowered and tier in table), "")


def _explain(name: str, names: list[str]) -> str:
    near = get_close_matches(name.lower(), [entry.lower() for entry in names], n=3, cutoff=0.5)
    originals = [entry for entry in dict.fromkeys(names) if entry.lower() in near]
    hint = f" Did you mean {' or '.join(originals)}?" if originals else ""
    return (
        f"no model is called {name!r}.{hint} Name one that a provider offers, add it to [models] "
        "in toolbridge.toml, or set a default there."
    )
