"""The setting `allow_hosts`: private hosts that may be fetched nevertheless."""

import ipaddress
from collections.abc import Sequence

from toolbridge.tools.web.domains import ascii_host
from toolbridge.upstream.addresses import Network, literal_address


class AllowedHosts:
    """Names, addresses and networks, each with a port or for the usual ports."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.networks: tuple[Network, ...] = tuple(
            found for host in hosts if (found := _network(host)) is not None
        )
        self._written = {_split(host) for host in hosts if "/" not in host}
        self.names = frozenset(name for name, _ in self._written if not literal_address(name))

    def permits(self, host: str, port: int) -> bool:
        """Whether the setting has this host with this port."""
        return (_plain(host), port) in self._written

    def permits_any_port(self, host: str) -> bool:
        """Whether the setting has this host without a port."""
        return (_plain(host), 0) in self._written


def _network(host: str) -> Network | None:
    """Return the network of an entry; one address is a network too, and a name is None."""
    name = host if "/" in host else literal_address(_split(host)[0])
    return ipaddress.ip_network(name, strict=False) if name else None


def _split(host: str) -> tuple[str, int]:
    """Return host and port of an entry; port 0 if it has none."""
    name, colon, port = host.rpartition(":")
    if colon and port.isdigit() and (not name.count(":") or name.endswith("]")):
        return _plain(name), int(port)
    return _plain(host), 0


def _plain(host: str) -> str:
    name = host.strip("[]")
    return literal_address(name) or ascii_host(name)
