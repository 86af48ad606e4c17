"""Hosts from the registry: which ones are usable, their public keys, and their ranking."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import urlsplit

from toolbridge.core.errors import Unreachable
from toolbridge.core.json import maybe_object
from toolbridge.node.chain.address import address_of, same_account
from toolbridge.node.hosts.access import HostAccess
from toolbridge.node.hosts.scoring import Factors, Mode, factors, pick, score
from toolbridge.node.protocol.encryption import compressed

NATIVE_PER_STABLE = 22_727_272_727_273_000 // 100_000_000
"""A price in wei over the same price in stablecoin: the ratio of the highest prices that the
contracts accept, which is that of an ETH at 4,400 dollars."""


class NoHosts(Unreachable):
    """No host is usable. `NO_HOSTS_AVAILABLE` is the code of the vendor's client."""

    def __init__(self, text: str) -> None:
        super().__init__(f"NO_HOSTS_AVAILABLE: {text}")


@dataclass(frozen=True)
class ListedHost:
    """A host's entry in the registry."""

    address: str
    stake: int
    active: bool
    metadata: str
    url: str
    models: tuple[bytes, ...]
    price: int
    """For our model in our currency; 0 if the host has set none."""


@dataclass(frozen=True)
class HostCandidate:
    """A usable host."""

    address: str
    url: str
    public: bytes
    """Its public key; empty until it is found."""
    stake: int
    price: int
    """For our model in our currency, in the unit of the contracts."""
    score: float = 0.0
    latency: float | None = None
    """Seconds until it answered a probe; None if it was not probed."""
    key_from: Literal["registry", "transaction", "settings"] = "registry"


@dataclass(frozen=True)
class ExcludedHost:
    """A host that is not usable, and the reason."""

    address: str
    why: str


@dataclass(frozen=True)
class FoundHosts:
    """The result of a search in the registry."""

    candidates: tuple[HostCandidate, ...]
    """Best first."""
    excluded: tuple[ExcludedHost, ...] = ()

    def describe(self) -> str:
        """Return the reasons of the first five excluded hosts."""
        return "; ".join(f"{host.address}: {host.why}" for host in self.excluded[:5])


# ── requirements ──


@dataclass(frozen=True)
class HostRequirements:
    """What a host must fulfil to be usable."""

    model: bytes
    most: int = 0
    """The highest price; 0 for no limit."""
    access: HostAccess = field(default_factory=HostAccess)
    """Which URLs may be contacted."""
    localhost: str = ""
    """The name that replaces `localhost` in URLs."""
    keys: tuple[bytes, ...] = ()
    """Public keys from the settings."""
    urls: Mapping[str, str] | None = None
    """URLs from the settings, by address in lower case; they replace those of the registry."""
    allow: frozenset[str] = frozenset()
    """The only addresses to use, in lower case; empty for all."""
    deny: frozenset[str] = frozenset()
    """Addresses that are never used, in lower case."""

    def objection(self, host: ListedHost) -> str:
        """Return why a host is not usable, by its registry entry; empty if it is."""
        url, address = self.url_of(host), host.address.lower()
        if address in self.deny:
            return "it is in `deny`"
        if self.allow and address not in self.allow:
            return "it is not in `allow`"
        if not host.active:
            return "it is not active"
        if self.model not in host.models:
            return "it does not serve the model"
        if why := self.access.objection(url) if url else "it has no URL":
            return why
        if not host.price:
            return "it has no price for the model in this currency"
        if self.most and host.price > self.most:
            return f"its price {host.price} exceeds `price` ({self.most})"
        return ""

    def url_of(self, host: ListedHost) -> str:
        """Return the URL to use for a host."""
        url = (self.urls or {}).get(host.address.lower(), host.url).strip().rstrip("/")
        return substitute_localhost(url, self.localhost) if self.localhost else url


def substitute_localhost(url: str, name: str) -> str:
    """Return `url` with `name` instead of `localhost`."""
    parts = urlsplit(url)
    if parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
        return url
    netloc = f"{name}:{parts.port}" if parts.port else name
    return parts._replace(netloc=netloc).geturl()


def given_key(host: ListedHost, keys: tuple[bytes, ...]) -> bytes | None:
    """Return the one of `keys` that belongs to the host's address, or None."""
    return next((one for one in keys if same_account(address_of(one), host.address)), None)


def claimed_key(host: ListedHost) -> bytes | None:
    """Return `publicKey` of a host's metadata if it belongs to the host's address, else None."""
    found = maybe_object(host.metadata)
    text = found.get("publicKey") if found else None
    if not isinstance(text, str):
        return None
    try:
        public = compressed(bytes.fromhex(text.strip().removeprefix("0x")))
    except ValueError:
        return None
    return public if same_account(address_of(public), host.address) else None


# ── ranking ──


def rank(
    candidates: list[HostCandidate], mode: Mode, *, native: bool = False
) -> tuple[HostCandidate, ...]:
    """Return hosts with their scores, best first; of equal scores, the lower price comes first.

    Scores use the price that is paid. With `native`, it is converted to that of a stablecoin, for
    which the weights of the vendor's client are made. `cheapest` ranks by the price alone: prices
    below `price` differ too little in the score to outweigh the stake.
    """
    scored = [replace(one, score=score(_factors(one, native=native), mode)) for one in candidates]
    if mode == "cheapest":
        return tuple(sorted(scored, key=lambda one: (one.price, -one.score, one.address)))
    return tuple(sorted(scored, key=lambda one: (-one.score, one.price, one.address)))


def _factors(candidate: HostCandidate, *, native: bool) -> Factors:
    price = -(-candidate.price // NATIVE_PER_STABLE) if native else candidate.price
    found = factors(candidate.stake, price)
    if candidate.latency is None:
        return found
    return Factors(found.stake, found.price, latency=max(0.0, 1.0 - candidate.latency))


def take(candidates: list[HostCandidate], chance: float) -> HostCandidate:
    """Remove a host from `candidates` and return it; `chance` picks in proportion to the scores."""
    return candidates.pop(pick([one.score for one in candidates], chance))
