"""Opens the engines that `store` and `ledger` name: SQLite files by default, or servers.

| setting | file | server |
|---|---|---|
| `store` | `toolbridge.sqlite`; budgets in `keys.sqlite` | Redis or Valkey: values, logs, claims, budgets |
| `ledger` | `ledger.sqlite`; keys in `keys.sqlite` | PostgreSQL: the ledger and the keys |
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolbridge.config import Config
from toolbridge.core.errors import ConfigError
from toolbridge.core.redaction import Redactor
from toolbridge.environment import secret
from toolbridge.store.budgets import Budgets
from toolbridge.store.interface import Store
from toolbridge.store.keys import KeyStore
from toolbridge.store.ledger import LedgerStore
from toolbridge.store_settings import remedy

if TYPE_CHECKING:
    from toolbridge.store.redis_store import RedisStore

STORE_FILE, KEYS_FILE, LEDGER_FILE = "toolbridge.sqlite", "keys.sqlite", "ledger.sqlite"
"""Names of files in the state directory."""
_PAUSES = (0.2, 0.8, 0.0)
"""Seconds between the attempts to reach a server at the start."""


def store_url(config: Config, env: Mapping[str, str]) -> str:
    """Return the URL of the store's server; empty for a file."""
    return "" if config.store == "auto" else secret(config.store, env)


def ledger_url(config: Config, env: Mapping[str, str]) -> str:
    """Return the URL of the ledger's server; empty for a file, or without a ledger."""
    return "" if config.ledger in {"auto", "off"} else secret(config.ledger, env)


class Engines:
    """The engines of one process, by its configuration."""

    def __init__(self, config: Config, state: Path | None, env: Mapping[str, str]) -> None:
        self._config = config
        self._state = state
        self._store_url = store_url(config, env)
        self._ledger_url = ledger_url(config, env)
        self._redis: RedisStore | None = None

    @property
    def has_values(self) -> bool:
        """Whether an earlier process, or another one, may have stored values."""
        return bool(self._store_url) or (
            self._state is not None and (self._state / STORE_FILE).exists()
        )

    @property
    def is_shared(self) -> bool:
        """Whether gateways on other machines may use the store."""
        return bool(self._store_url)

    def store(self, redactor: Redactor) -> Store:
        size = self._config.store_bytes
        if self._store_url:
            with _extra("store", "a Redis server", "redis"):
                from toolbridge.store.redis_server import RedisServer
                from toolbridge.store.redis_store import RedisStore
            server = RedisServer(self._store_url)
            self._redis = RedisStore(server, redactor=redactor, size=size)
            return self._redis
        from toolbridge.store.sqlite import SqliteStore

        path = self._state / STORE_FILE if self._state else None
        return SqliteStore(path, redactor=redactor, size=size)

    async def check(self, store: Store) -> None:
        """Raise `ConfigError` if the server of the store cannot be used; a file may be away."""
        if not self._store_url:
            return
        for pause in _PAUSES:  # it may be starting too
            if not (trouble := await store.check()):
                return
            await asyncio.sleep(pause)
        raise ConfigError(f"`store`: {trouble}; {remedy(trouble, 'store')}")

    @property
    def budgets(self) -> Callable[[], Budgets] | None:
        """The function that opens the budgets, for the first limit; None without a place for them."""
        if self._redis is not None:
            return partial(_redis_budgets, self._redis)
        return partial(_sqlite_budgets, self._state / KEYS_FILE) if self._state else None

    def keys(self) -> KeyStore | None:
        if self._ledger_url:
            with _extra("ledger", "a PostgreSQL server", "postgres"):
                from toolbridge.store.postgres_keys import PostgresKeys
            return PostgresKeys(self._ledger_url)
        from toolbridge.store.sqlite_keys import SqliteKeys

        return SqliteKeys(self._state / KEYS_FILE) if self._state else None

    @property
    def ledger(self) -> Callable[[], LedgerStore] | None:
        """The function that opens the ledger; None if it is off, or without a place for it."""
        if self._ledger_url:
            return partial(_postgres_ledger, self._ledger_url)
        if self._config.ledger == "off" or self._state is None:
            return None
        return partial(_sqlite_ledger, self._state / LEDGER_FILE)


_INSTALL = {
    "redis": "pip install '.[redis]'",
    "postgres": "pip install '.[postgres]'",
}


@contextmanager
def _extra(setting: str, server: str, extra: str) -> Iterator[None]:
    """Raise `ConfigError` with the command to install what the server needs."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"`{setting}` is {server}, and the package `{error.name}` is not installed; run "
            f"`{_INSTALL[extra]}` in the clone of toolbridge"
        ) from None


def _redis_budgets(store: "RedisStore") -> Budgets:
    from toolbridge.store.redis_budgets import RedisBudgets

    return RedisBudgets(store.server)


def _sqlite_budgets(file: Path) -> Budgets:
    from toolbridge.store.sqlite_budgets import SqliteBudgets

    return SqliteBudgets(file)


def _postgres_ledger(url: str) -> LedgerStore:
    with _extra("ledger", "a PostgreSQL server", "postgres"):
        from toolbridge.store.postgres_ledger import PostgresLedger
    return PostgresLedger(url)


def _sqlite_ledger(file: Path) -> LedgerStore:
    from toolbridge.store.sqlite_ledger import SqliteLedger

    return SqliteLedger(file)
