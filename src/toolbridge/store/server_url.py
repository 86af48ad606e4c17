"""The address of a store or ledger server; its password is never shown."""

from urllib.parse import parse_qsl, unquote, urlsplit

MASK = "***"
REDIS = ("redis", "rediss", "unix", "valkey", "valkeys")
POSTGRES = ("postgresql", "postgres")


class ServerUrl:
    """A URL with or without a password."""

    def __init__(self, text: str) -> None:
        self._parts = urlsplit(text)
        # redis-py has no name of its own for Valkey, which has the same protocol.
        self.text = text.replace("valkey", "redis", 1) if text.startswith("valkey") else text

    @property
    def scheme(self) -> str:
        return self._parts.scheme.lower()

    @property
    def passwords(self) -> list[str]:
        """The password in its place and in the query, as written and decoded."""
        found = [self._parts.password or ""]
        found += [value for name, value in parse_qsl(self._parts.query) if "password" in name]
        return [text for raw in found if raw for text in dict.fromkeys((raw, unquote(raw)))]

    @property
    def shown(self) -> str:
        """The URL without its password and its options."""
        parts = self._parts
        login, at, host = parts.netloc.rpartition("@")
        user, colon, _ = login.partition(":")
        masked = f"{user}{colon}{MASK}{at}" if colon else f"{login}{at}"
        return f"{parts.scheme}://{masked}{host}{parts.path}"

    def without_password(self, text: str) -> str:
        """Return an error of the server or its client without the password."""
        for password in self.passwords:
            text = text.replace(password, MASK)
        return text


def url_fault(text: str, schemes: tuple[str, ...]) -> str:
    """Return what is wrong with a URL; empty if nothing is."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme.lower() not in schemes:
        return f"it must begin with {' or '.join(f'{name}://' for name in schemes)}"
    if parts.scheme == "unix":
        return "" if parts.path else "it has no path of a socket"
    # libpq takes the host from the options or the environment.
    if not parts.hostname and parts.scheme.lower() not in POSTGRES:
        return "it has no host"
    return ""
