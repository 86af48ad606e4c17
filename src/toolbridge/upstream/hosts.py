"""Host names: whether one is loopback, and the host in a URL, a Host or an Origin field.

Nothing here is cached: callers choose Host and Origin, and a cache would keep whatever they send.
`urlsplit` has a cache inside, so it is used for settings only.
"""

import ipaddress
import re
from urllib.parse import urlsplit

_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/?#\\\s]+))(?::[0-9]{0,5})?")
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://(.*)", re.DOTALL)


def is_loopback(host: str) -> bool:
    """Return whether `host` is this machine; a name like `127.example.org` may be any machine."""
    if host == "127.0.0.1" or host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_private(host: str) -> bool:
    """Return whether `host` is this machine or one of a private network, as far as its name shows."""
    if is_loopback(host):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        name = host.lower().rstrip(".")
        return "." not in name or name.endswith(_PRIVATE)


# RFC 6762: `.local`. ICANN, 2024: `.internal`. RFC 8375: `home.arpa`. Docker: `host.docker.internal`.
_PRIVATE = (".local", ".internal", ".lan", ".home.arpa")


def hostname(url: str) -> str:
    """Return the host of `url`, a setting; empty if it is not a URL."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def host_of(authority: str) -> str:
    """Return the host of a Host field, without its port; empty if the field is malformed."""
    found = _AUTHORITY.fullmatch(authority)
    return (found[1] or found[2]) if found else ""


def host_of_origin(origin: str) -> str:
    """Return the host of an Origin field; empty for `null` and for a malformed field."""
    found = _ORIGIN.fullmatch(origin)
    return host_of(found[1]) if found else ""
