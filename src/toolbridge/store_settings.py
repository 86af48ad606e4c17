"""The settings `store` and `ledger`: files, or the URLs of servers, whose passwords are never shown."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from toolbridge.core.errors import ConfigError
from toolbridge.environment import key_variable, secret

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


_LOGIN = re.compile(r"password|authenticat|noauth|wrongpass", re.IGNORECASE)


def remedy(trouble: str, setting: str) -> str:
    """Return what to do about an error of the server that `setting` names.

    Redis: "Authentication required.", "invalid username-password pair". PostgreSQL: "password
    authentication failed", "no password supplied".
    """
    if _LOGIN.search(trouble):
        return f"correct the user and the password in `{setting}`"
    return f"start the server, or correct `{setting}`"


def check_servers(store: str, ledger: str, shown: str, env: Mapping[str, str]) -> None:
    """Raise `ConfigError` if `store` or `ledger` is neither a word nor the URL of a server."""
    for name, value, words, schemes in (
        ("store", store, ("auto",), REDIS),
        ("ledger", ledger, ("auto", "off"), POSTGRES),
    ):
        if value in words:
            continue
        variable = key_variable(value)
        if variable and not env.get(variable):
            raise ConfigError(f"{shown}: {name}: the variable {variable} is not set")
        if fault := url_fault(secret(value, env), schemes):
            choices = " or ".join(f'"{word}"' for word in words)
            raise ConfigError(
                f"{shown}: {name}: must be {choices} or the URL of a server, and {fault}"
            )


def passwords_of(urls: Iterable[str], env: Mapping[str, str]) -> list[str]:
    """Return the passwords in the URLs, for the redactor."""
    return [
        word
        for url in urls
        if "://" in (text := secret(url, env))
        for word in ServerUrl(text).passwords
    ]


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
    database = parts.path.strip("/")
    if parts.scheme.lower() not in POSTGRES and database and not database.isdecimal():
        # redis-py would use database 0 for a name.
        return f"the database {database!r} must be a number, such as /1"
    return ""
