"""Hosts as the registry tells of them: which ones can be used, and which is the best."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

from toolbridge.core.errors import Unreachable
from toolbridge.core.json import maybe_object
from toolbridge.node.chain.address import address_of, same_account
from toolbridge.node.hosts.scoring import Factors, Mode, factors, pick, score
from toolbridge.node.protocol.encryption import compressed

NATIVE_PER_STABLE = 227_273
"""How the contracts' bounds relate a price in wei to one in dollars."""


class NoHosts(Unreachable):
    def __init__(self, text: str) -> None:
        super().__init__(f"NO_HOSTS_AVAILABLE: {text}")


@dataclass(frozen=True)
class ListedHost:
    """A host as it stands in the registry."""

    address: str
    stake: int
    active: bool
    metadata: str
    url: str
    models: tuple[bytes, ...]
    stable_price: int
    """Per token for our model, or the least for any; 0 where it is unknown."""
    price: int
    """Per token for our model in our currency; 0 where there is none."""


@dataclass(frozen=True)
class HostCandidate:
    """A host that can be used."""

    address: str
    url: str
    public: bytes
    """Its public key; empty while nobody has found it."""
    stake: int
    price: int
    stable_price: int
    score: float = 0.0
    latency: float | None = None
    """Seconds to an answer; None where nobody measured."""
    key_from: Literal["registry", "transaction", "settings"] = "registry"


@dataclass(frozen=True)
class ExcludedHost:
    """A host that cannot be used, and why."""

    address: str
    why: str


@dataclass(frozen=True)
class FoundHosts:
    candidates: tuple[HostCandidate, ...]
    """The best first."""
    excluded: tuple[ExcludedHost, ...] = ()

    def describe(self) -> str:
        return "; ".join(f"{host.address}: {host.why}" for host in self.excluded[:5])


# ── which ones ──


@dataclass(frozen=True)
class HostRequirements:
    """What a host must fulfil."""

    model: bytes
    most: int = 0
    """The highest price; 0 for any."""
    private: bool = False
    localhost: str = ""
    """What stands for this machine."""
    keys: tuple[bytes, ...] = ()
    """Public keys that the user knows."""
    urls: Mapping[str, str] | None = None
    """Where hosts really are, by address in lower case."""

    def objection(self, host: ListedHost) -> str:
        """Return why a host cannot be used, as far as the registry tells; nothing if it can."""
        url = self.url_of(host)
        if not host.active:
            return "it is not active"
        if self.model not in host.models:
            return "it does not serve the model"
        if not usable(url):
            return "its URL cannot be used" if url else "it has no URL"
        if not self.private and is_private(url):
            return "its URL is a private address; `private_hosts` allows that"
        if not host.price:
            return "it names no price for the model in this currency"
        if self.most and host.price > self.most:
            return f"its price {host.price} is above `price` ({self.most})"
        return ""

    def url_of(self, host: ListedHost) -> str:
        url = (self.urls or {}).get(host.address.lower(), host.url).strip().rstrip("/")
        return substitute_localhost(url, self.localhost) if self.localhost else url


def usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https", "ws", "wss"} and bool(parts.hostname)
    except ValueError:
        return False


def is_private(url: str) -> bool:
    """Whether a URL leads into the user's own network, where a stranger has no business."""
    name = urlsplit(url).hostname or ""
    if name == "localhost" or name.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return not ipaddress.ip_address(name).is_global
    except ValueError:
        return False


def substitute_localhost(url: str, name: str) -> str:
    parts = urlsplit(url)
    if parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
        return url
    place = f"{name}:{parts.port}" if parts.port else name
    return parts._replace(netloc=place).geturl()


def given_key(host: ListedHost, keys: tuple[bytes, ...]) -> bytes | None:
    return next((one for one in keys if same_account(address_of(one), host.address)), None)


def claimed_key(host: ListedHost) -> bytes | None:
    """Return the public key of a host's own entry, if the host's address follows from it."""
    found = maybe_object(host.metadata)
    text = found.get("publicKey") if found else None
    if not isinstance(text, str):
        return None
    try:
        public = compressed(bytes.fromhex(text.strip().removeprefix("0x")))
    except ValueError:
        return None
    return public if same_account(address_of(public), host.address) else None


# ── which one ──


def rank(candidates: list[HostCandidate], mode: Mode) -> tuple[HostCandidate, ...]:
    """Return hosts with their scores, the best first."""
    scored = [replace(one, score=score(_factors(one), mode)) for one in candidates]
    return tuple(sorted(scored, key=lambda one: (-one.score, one.address)))


def _factors(candidate: HostCandidate) -> Factors:
    stable = candidate.stable_price or max(1, candidate.price // NATIVE_PER_STABLE)
    found = factors(candidate.stake, stable)
    if candidate.latency is None:
        return found
    return Factors(found.stake, found.price, latency=max(0.0, 1.0 - candidate.latency))


def take(candidates: list[HostCandidate], chance: float) -> HostCandidate:
    """Remove one host from `candidates` and return it, each as likely as its score."""
    return candidates.pop(pick([one.score for one in candidates], chance))
