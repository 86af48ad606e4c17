"""What a host's name says about where it is."""

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Whether `host` can only be this machine; a name like `127.example.org` can be anywhere."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(256)
def hostname(url: str) -> str:
    """Return the host that `url` names; nothing where it is no URL."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
