"""Which hosts may be contacted, by the scheme and the address of their URL.

Anyone can register a host with any URL. A URL is checked when hosts are listed, and the addresses of
its name again when a connection is made (`upstream.addresses`). The user's own `host_url` may be
written as a private address.
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from toolbridge.upstream.addresses import is_private_host, literal_address
from toolbridge.upstream.hosts import is_loopback

_SCHEMES = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_HOST = re.compile(r"[A-Za-z0-9._:-]+")
"""Names outside ASCII are written in punycode. HTTP clients read full-width digits and `%31` in
different ways, and an address that one of them does not recognise would not be checked."""
_PRINTABLE = re.compile(r"[!-\[\]-~]+")
"""ASCII without spaces, control characters and the backslash, which some clients read as a slash."""


@dataclass(frozen=True)
class HostAccess:
    """What the settings allow besides public hosts with TLS."""

    private: bool = False
    """Whether hosts may be at private addresses."""
    plain: bool = False
    """Whether the URLs of hosts may be `http` and `ws`."""
    named: frozenset[str] = frozenset()
    """Host names in lower case that the settings contain; they may be at private addresses."""

    def with_own(self, host_url: str) -> "HostAccess":
        """Return the access that also allows the user's own host."""
        return HostAccess(self.private, self.plain, self.named | _own_name(host_url))

    def objection(self, url: str) -> str:
        """Return why a URL may not be contacted; empty if it may. Names are not resolved."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            return "its URL is invalid"
        if parts.scheme not in _SCHEMES or not host:
            return "its URL is invalid"
        if not _HOST.fullmatch(host) or "@" in parts.netloc or not _PRINTABLE.fullmatch(url):
            return "its URL has a user name, or characters other than ASCII letters and digits"
        if is_private_host(host):
            if self.private or host in self.named:
                return ""  # also without TLS: private addresses have no certificates
            return "its URL is a private address; set `private_hosts = true` to allow that"
        if not self.plain and parts.scheme in {"http", "ws"}:
            return f"its URL is {parts.scheme} without TLS; set `plain_hosts = true` to allow that"
        return ""

    def target(self, url: str) -> tuple[str, int, bool]:
        """Return host and port of a URL without objections, and whether it may be private."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        return host, parts.port or _SCHEMES[parts.scheme], self.private or host in self.named


def _own_name(url: str) -> set[str]:
    """Return the host of `host_url`, if it is an address or this machine; a name is resolved."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return set()
    return {host} if literal_address(host) or is_loopback(host) else set()
