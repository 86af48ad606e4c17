"""What a host's name says about where it is.

Nothing here is cached by what it was asked: callers choose Host and Origin, and a cache of theirs
would keep whatever they send (`urlsplit` has one inside, so it sees settings only).
"""

import ipaddress
import re
from urllib.parse import urlsplit

_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/?#\\\s]+))(?::[0-9]{0,5})?")
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://(.*)", re.DOTALL)


def is_loopback(host: str) -> bool:
    """Whether `host` can only be this machine; a name like `127.example.org` can be anywhere."""
    if host == "127.0.0.1" or host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hostname(url: str) -> str:
    """Return the host that `url`, a setting, names; nothing where it is no URL."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def host_of(authority: str) -> str:
    """Return the host of a Host field, without its port; nothing where it is not one."""
    found = _AUTHORITY.fullmatch(authority)
    return (found[1] or found[2]) if found else ""


def host_of_origin(origin: str) -> str:
    """Return the host of an Origin field; nothing for `null` and for what is not an origin."""
    found = _ORIGIN.fullmatch(origin)
    return host_of(found[1]) if found else ""
