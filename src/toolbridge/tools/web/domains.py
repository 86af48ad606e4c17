"""Lists of domains that a search or a fetch keeps to.

Anthropic, web search and web fetch: an entry is a domain without a scheme; it covers its subdomains,
and may have a path (`example.com/blog`), which must then be the beginning of the address's path.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

_LONGEST_HOST = 253
"""RFC 1035, 2.3.4; longer names are not encoded, because that takes quadratic time."""


def is_allowed(url: str, allow: Sequence[str], block: Sequence[str]) -> bool:
    """Whether `url` is in `allow` (every address, if that is empty) and not in `block`."""
    if not allow and not block:
        return True
    host, path = _parts(url)
    if not host:
        return False
    allowed = not allow or any(_covers(entry, host, path) for entry in allow)
    return allowed and not any(_covers(entry, host, path) for entry in block)


def ascii_host(host: str) -> str:
    """Return a host name in lower case, in its ASCII form, without a final dot."""
    name = host.lower().rstrip(".")
    if name.isascii() or len(name) > _LONGEST_HOST:
        return name
    try:
        return name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return name


def _parts(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        return ascii_host(parts.hostname or ""), parts.path or "/"
    except ValueError:
        return "", ""


def _covers(entry: str, host: str, path: str) -> bool:
    name, slash, prefix = entry.strip().removeprefix("*.").partition("/")
    domain = ascii_host(name.partition(":")[0])
    if not domain or not (host == domain or host.endswith(f".{domain}")):
        return False
    wanted = f"/{prefix}".rstrip("/") if slash else ""
    if "*" in wanted:
        # Anthropic, web search tool: one wildcard, in the path (`example.com/*/articles`).
        pattern = ".*".join(map(re.escape, wanted.split("*", 1)))
        return re.match(f"{pattern}(?:/|$)", path) is not None
    return path == wanted or path.startswith(f"{wanted}/")
