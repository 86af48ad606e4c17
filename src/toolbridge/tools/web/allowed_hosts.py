"""The setting `allow_hosts`: private hosts that may be fetched nevertheless."""

import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from toolbridge.tools.web.domains import ascii_host
from toolbridge.upstream.addresses import literal_address


class _Entry(NamedTuple):
    name: str
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None
    port: int
    """0 for the ports of the setting `ports`."""


class AllowedHosts:
    """Names, addresses and networks, each with a port or for the usual ports."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._entries = tuple(map(_entry, hosts))

    def covers(self, host: str, port: int, address: str = "", *, exactly: bool = False) -> bool:
        """Whether an entry has the host, or the address that it resolves to, for this port.

        With `exactly` only entries that name the port count.
        """
        name, at = ascii_host(host.strip("[]")), literal_address(address or host)
        ports = {port} if exactly else {port, 0}
        return any(entry.port in ports and _fits(entry, name, at) for entry in self._entries)


def _fits(entry: _Entry, name: str, address: str) -> bool:
    if entry.network is None:
        return entry.name == name
    if not address:
        return False
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found) in entry.network


def _entry(host: str) -> _Entry:
    """Return an entry of the setting; one address is a network too."""
    if "/" in host:
        return _Entry("", ipaddress.ip_network(host, strict=False), 0)
    name, colon, digits = host.rpartition(":")
    has_port = colon and digits.isdigit() and (":" not in name or name.endswith("]"))
    name, port = (name, int(digits)) if has_port else (host, 0)
    address = literal_address(name)
    network = ipaddress.ip_network(address) if address else None
    return _Entry(ascii_host(name.strip("[]")), network, port)
