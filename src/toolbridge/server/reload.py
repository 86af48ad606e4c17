"""Reading the configuration again while the gateway runs.

New requests use the new settings; running ones finish with the old ones. A file with a fault changes
nothing, and the fault is reported. A few settings belong to the process and need a restart: they
keep their values, and the report names them.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from toolbridge import config_file, trust
from toolbridge.config import Config, StreamConfig
from toolbridge.config_file import ConfigSource
from toolbridge.core.errors import ConfigError
from toolbridge.server.dispatch import Dispatcher
from toolbridge.setting_errors import line_of
from toolbridge.store.notices import notice, report_fault

Stamp: TypeAlias = tuple[tuple[str, int, int, int], ...]
"""Path, inode, time and size of each watched file."""

_NEED_RESTART = (
    "host", "port", "workers", "store", "store_bytes", "explain_bytes", "record", "record_files", "record_bytes",
    "ledger", "ledger_days", "otel", "limits_offline",
)  # fmt: skip
_STREAM_NEEDS_RESTART = (
    "grace",
    "max_streams",
    "run_bytes",
    "artifacts",
    "keep_runs",
    "keep_bytes",
)
_SOCKETS = ("host", "port", "workers", "tls")
"""Settings that a restart keeps as well, because the new process gets the listening sockets."""
_NODE = "node"


class ConfigFile:
    """The configuration of a running gateway: its file, the flags and the environment."""

    def __init__(
        self,
        source: ConfigSource,
        *,
        named: Path | None = None,
        flags: Mapping[str, object] | None = None,
        env: Mapping[str, str] = os.environ,
        extend: Callable[[Config], Config] | None = None,
    ) -> None:
        """`named` is the file of the command line; `extend` adds what the command itself sets."""
        self.source = source
        self._named = named
        self._flags = flags
        self._env = env
        self._extend = extend

    def read(self) -> Config:
        """Read the file again; raise `ConfigError` if it must not or cannot be used."""
        source = config_file.choose(self._named, self._env)
        before = self.source.path
        if source.refused and source.path != before:
            raise ConfigError(source.refused)
        if before is not None and source.path is None:
            raise ConfigError(f"{before} is gone; write it again, or restart without it")
        loaded = config_file.read(source, env=self._env, flags=self._flags)
        self.source = source
        return loaded if self._extend is None else self._extend(loaded)

    def located(self, error: ConfigError) -> str:
        """Return the text of an error with the file and the line of its setting."""
        text, where = str(error), error.problem.where
        if not where or self.source.path is None:
            return text
        line = line_of(self.source.content, text)
        return f"{self.source.path}: {text}" + (f" (at line {line})" if line else "")

    def stamp(self, further: Iterable[str] = ()) -> Stamp:
        """Return the state of the files on the disk; it differs after a change of one of them."""
        paths = [self.source.path, trust.list_file(self._env), *map(Path, filter(None, further))]
        return tuple(_stamp(path) for path in paths if path is not None)


def _stamp(path: Path) -> tuple[str, int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (str(path), 0, 0, 0)
    return (str(path), found.st_ino, found.st_mtime_ns, found.st_size)


def keep_settled(old: Config, new: Config) -> tuple[Config, list[str]]:
    """Return `new` with the values of `old` for all that needs a restart, and the names of those."""
    kept: dict[str, object] = {
        name: getattr(old, name)
        for name in _NEED_RESTART
        if getattr(old, name) != getattr(new, name)
    }
    names = list(kept)
    stream, changed = _keep_stream(old.stream, new.stream)
    names += changed
    tls = msgspec.structs.replace(new.tls, host=old.tls.host, port=old.tls.port)
    if bool(old.tls.cert) != bool(new.tls.cert) or tls != new.tls:
        names.append("tls")
        kept["tls"] = tls if old.tls.cert and new.tls.cert else old.tls
    providers = dict(new.providers)
    for name, provider in old.providers.items():
        if name in providers and provider != providers[name] and provider.api == _NODE:
            # An open session was paid by the old terms.
            providers[name] = provider
            names.append(f"providers.{name}")
    return msgspec.structs.replace(new, stream=stream, providers=providers, **kept), names


def tell_unchanged(names: Sequence[str]) -> str:
    """Return which command applies the settings that a reload does not; empty without any."""
    stop = ", ".join(name for name in names if name in _SOCKETS)
    restart = ", ".join(name for name in names if name not in _SOCKETS)
    said = [f"run `toolbridge restart` to apply: {restart}"] if restart else []
    if stop:
        said.append(f"run `toolbridge stop` and `toolbridge serve` to apply: {stop}")
    return "; ".join(said)


def restart_fault(old: Config, file: ConfigFile | None) -> str:
    """Return why a restart cannot apply the configuration; empty if it can."""
    if file is None:
        return ""
    try:
        _, names = keep_settled(old, file.read())
    except ConfigError:
        return ""  # the new process reports it
    return tell_unchanged([name for name in names if name in _SOCKETS])


def _keep_stream(old: StreamConfig, new: StreamConfig) -> tuple[StreamConfig, list[str]]:
    kept = {
        name: getattr(old, name)
        for name in _STREAM_NEEDS_RESTART
        if getattr(old, name) != getattr(new, name)
    }
    return msgspec.structs.replace(new, **kept), [f"stream.{name}" for name in kept]


def _ignore(_: str) -> None:
    pass


class Reloader:
    """Replaces the settings of a running gateway."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        file: ConfigFile,
        apply: Callable[[Config], None],
        *,
        reports: bool = True,
    ) -> None:
        """`apply` uses the settings outside the `App`; it raises `ConfigError`, or uses them all.

        Without `reports` nothing is written: another worker reports the same.
        """
        self._notice = notice if reports else _ignore
        self._dispatcher = dispatcher
        self._file = file
        self._apply = apply
        self._seen = self._last = self._stamp()
        self.unchanged: list[str] = []
        """The changed settings that the last reload could not apply."""

    def has_changed(self) -> bool:
        """Return whether a file has changed since the last reload, and is not being written."""
        now = self._stamp()
        settled, self._last = now == self._last, now
        return settled and now != self._seen

    def _stamp(self) -> Stamp:
        tls = self._dispatcher.app.config.tls
        return self._file.stamp((tls.cert, tls.key))

    async def reload(self) -> str:
        """Read the configuration and use it; return the fault, empty on success."""
        app = self._dispatcher.app
        self._seen = self._last = self._stamp()
        try:
            config, self.unchanged = keep_settled(app.config, self._file.read())
            renewed = await app.renewed(config)
            self._apply(config)
        except ConfigError as error:
            fault = self._file.located(error)
            self._notice(f"the configuration was not reloaded, the old one stays: {fault}")
            return fault
        except Exception as error:  # noqa: BLE001  a fault of ours must not stop the server
            report_fault(error, app.gateway.redactor)
            notice("the configuration was not reloaded, the old one stays")
            return type(error).__name__
        self._dispatcher.use(renewed)
        shown = self._file.source.path or "the environment and the command line"
        names = ", ".join(self.unchanged)
        later = f"; these need a restart: {names}" if names else ""
        self._notice(f"the configuration was reloaded from {shown}{later}")
        return ""
