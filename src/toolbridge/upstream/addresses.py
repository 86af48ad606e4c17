"""Checks that a host name leads to the internet and not into the user's own network.

A caller can name a URL for a tool, and anyone can register a node's URL, so such a name must not
make the gateway send requests to services beside it. The same holds for a page that a model fetches,
and for an authorization server that an MCP server names. Names are resolved here, each address is
checked, and connections are made to the checked addresses themselves: a name that is resolved a
second time could lead elsewhere (DNS rebinding). `tools.http`, `tools.web.fetch`, `tools.mcp`,
`node.hosts.probing` and `node.session.connection` use it; `address_guard` has the resolver.
"""

import asyncio
import ipaddress
import socket
from contextlib import suppress

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_V6 = tuple(
    map(
        ipaddress.IPv6Network,
        # RFC 8215 (NAT64 of a local network), RFC 3879 (site-local), RFC 9637 (documentation),
        # RFC 9602 (segment routing inside a network).
        ("64:ff9b:1::/48", "fec0::/10", "3fff::/20", "5f00::/16"),
    )
)
_COMPATIBLE = ipaddress.IPv6Network("::/96")
"""RFC 4291, 2.5.5.1: deprecated IPv4-compatible addresses."""
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
_LOCAL_NAMES = ("localhost", "local", "internal", "lan", "home.arpa", "intranet", "corp")
"""Top-level names that no public server has (RFC 6761, RFC 6762, RFC 8375, ICANN)."""


class PrivateAddress(OSError):
    """A host name has no public address."""

    def __init__(self, host: str) -> None:
        super().__init__(None, f"{host} is at a private address")

    def __str__(self) -> str:
        return str(self.args[1])


def is_public(address: str) -> bool:
    """Whether `address` is a public internet address; an IPv4 address inside IPv6 counts."""
    found = ipaddress.ip_address(address.partition("%")[0])
    inside = _inside(found) if isinstance(found, ipaddress.IPv6Address) else None
    checked = inside or found
    if isinstance(checked, ipaddress.IPv6Address) and any(checked in one for one in _LOCAL_V6):
        return False
    return checked.is_global and not checked.is_multicast


def _inside(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside an IPv6 address (mapped, 6to4, Teredo, NAT64), or None."""
    number = int(address)
    isatap = (number >> 32) & 0xFFFF_FFFF in _ISATAP
    if address in _NAT64 or isatap or (address in _COMPATIBLE and number > 1):
        return ipaddress.IPv4Address(number & 0xFFFF_FFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)


def literal_address(host: str) -> str:
    """Return the address that `host` is, in its usual form; empty if it is a name.

    The C library also reads `127.1`, `2130706433`, `0x7f000001` and `0177.0.0.1` as addresses.
    """
    name = host.strip("[]").partition("%")[0]
    with suppress(ValueError):
        return str(ipaddress.ip_address(name))
    with suppress(OSError, ValueError):
        if name and name[0].isdigit():
            return socket.inet_ntoa(socket.inet_aton(name.rstrip(".")))
    return ""


def is_private_host(host: str) -> bool:
    """Whether `host` is written as an address or a name of a private network; nothing is resolved."""
    if address := literal_address(host):
        return not is_public(address)
    name = host.rstrip(".").lower()
    return "." not in name or name.endswith(tuple(f".{one}" for one in _LOCAL_NAMES))


def is_own(address: str) -> bool:
    """Whether `address` belongs to this machine, also if it is public; nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            # The system chooses the sender's address; for a machine's own address it is the same.
            one.connect((address, 9))
            return str(one.getsockname()[0]) == address
    except OSError:  # no route, or no IPv6
        return False


async def open_socket(host: str, port: int, *, private: bool = False) -> socket.socket:
    """Return a connected TCP socket; raise `OSError` if no address is allowed or reachable.

    The addresses of `host` are tried in order, so use it inside a timeout.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    allowed = [entry for entry in found if private or is_public(str(entry[4][0]))]
    if not allowed:
        raise PrivateAddress(host)
    failure: OSError | None = None
    for family, kind, protocol, _, address in allowed:
        one = socket.socket(family, kind, protocol)
        try:
            one.setblocking(False)
            await loop.sock_connect(one, address)
        except OSError as error:
            one.close()
            failure = error
        except BaseException:
            one.close()
            raise
        else:
            return one
    raise failure or OSError(f"{host} has no address")
