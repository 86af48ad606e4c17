"""Reads the configuration: defaults, then the file, then the environment, then flags.

The file is `toolbridge.toml`; `docs/reference/settings.md` lists its settings. An unknown setting is
an error that names the nearest known one, because a misspelled setting would otherwise be ignored.
"""

import logging
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from toolbridge import trust
from toolbridge.config import (
    Config,
    ModelConfig,
    ProviderConfig,
    RatesConfig,
    StreamConfig,
)
from toolbridge.core.errors import COMMAND_LINE, ConfigError
from toolbridge.environment import empty_key_variable, models_from, settings_from, variables_from
from toolbridge.map_settings import follow_map
from toolbridge.policy.routing_rules import RoutingRule
from toolbridge.server_settings import HttpConfig, TlsConfig
from toolbridge.server_tool_settings import (
    SERVER_TOOL_TABLES,
    McpServerSettings,
    ServerToolSettings,
    fault_of,
)
from toolbridge.setting_errors import explain_setting, line_of
from toolbridge.store_settings import check_servers

FILE_NAME = "toolbridge.toml"
T = TypeVar("T")


class ConfigSource(msgspec.Struct, frozen=True):
    """The configuration file that is used."""

    path: Path | None = None
    content: bytes = b""
    refused: str = ""
    """Why the file in the working directory is not used, and what to do; empty otherwise."""
    may_spend: bool = True
    """Whether the file may contain settings of payments: the user's own, or an allowed one."""


def load(
    path: Path | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """Return the configuration; raise `ConfigError` with the file, the setting and the next step."""
    source = choose(path, env)
    if source.refused:
        logging.getLogger("toolbridge").warning("toolbridge: %s", source.refused)
    return read(source, env=env, flags=flags)


def read(
    source: ConfigSource,
    *,
    env: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """Return the configuration from a file, the environment and flags."""
    try:
        return _read_values(source, env, flags)
    except ConfigError as error:
        raise _with_line(error, source) from None


def _check_key(
    values: Mapping[str, object], env: Mapping[str, str], given: Mapping[str, object], file: str
) -> None:
    """Raise `ConfigError` for an empty key: a gateway without a key must not start by mistake."""
    variable = empty_key_variable(env)
    if "key" in given:
        where, key = "--api-key", given["key"]
    elif "key" in settings_from(env) and not variable:
        return
    elif "key" in values and not env.get(variable):
        where, key = f"{file}: key", values["key"]
    else:
        where, key = variable, "" if variable else None
    if isinstance(key, str) and not key.strip():
        raise ConfigError(f"{where}: the key is empty; give a key, or leave it out to require none")


def _with_line(error: ConfigError, source: ConfigSource) -> ConfigError:
    """Return the error with the line of the setting that it names, if the file has it."""
    text = str(error)
    setting = text.removeprefix(f"{source.path}: ")
    line = 0 if setting == text else line_of(source.content, setting)
    return ConfigError(f"{text} (at line {line})") if line else error


def _read_values(
    source: ConfigSource, env: Mapping[str, str], flags: Mapping[str, object] | None
) -> Config:
    values = {} if source.path is None else _parse(source.path, source.content)
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    model = given.pop("model", None)
    _check_alone(given, COMMAND_LINE)
    set_by_variables = settings_from(env)
    for name, variable in variables_from(env).items():
        _check_alone({name: set_by_variables[name]}, variable)
    _check_key(values, env, given, str(source.path))
    values |= set_by_variables | given
    shown = str(source.path or "the environment or the command line")
    _rename_old(values, shown)
    _check_tables(values, shown)
    named = models_from(env)
    default = {} if model is None else {"default": model}
    values["map"] = _table(values.get("map")) | named | default
    loaded = _convert(values, Config, shown)
    check_servers(loaded.store, loaded.ledger, shown, env)
    _check_server_tools(loaded.server_tools, shown)
    if loaded.tls.key and not loaded.tls.cert:
        raise ConfigError(
            f"{shown}: tls.key: there is no `tls.cert`, so no port with TLS is opened"
        )
    if not source.may_spend:
        _check_spending(loaded, shown)
    return msgspec.structs.replace(loaded, map=follow_map(loaded.map, shown, source.content))


def _check_alone(given: Mapping[str, object], source: str) -> None:
    """Raise for a value that is wrong by itself, so that the file is not blamed for it."""
    for name, value in given.items():
        _convert({name: value}, Config, source)


def choose(path: Path | None = None, env: Mapping[str, str] = os.environ) -> ConfigSource:
    """Return the file to use: the given one, one in the working directory, or the user's own.

    A file in the working directory must be allowed. One that the user gives needs no permission,
    except for payments: it may come from elsewhere, and a key would pay by its terms.
    """
    own = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "~")).expanduser() / ".config")
    own = own / "toolbridge" / FILE_NAME
    if named := path or env.get("TOOLBRIDGE_CONFIG"):
        file, content = Path(named), _read(Path(named))
        is_own = own.is_file() and file.samefile(own)
        may_spend = is_own or trust.is_allowed(file, content, env)
        return ConfigSource(file, content, may_spend=may_spend)
    here, refused = Path(FILE_NAME), ""
    if here.is_file() and not (own.is_file() and here.samefile(own)):
        try:
            return ConfigSource(here.resolve(), trust.read_allowed(here, env))
        except trust.FileNotAllowed as error:
            refused = str(error)
    if own.is_file():
        return ConfigSource(own, _read(own), refused)
    return ConfigSource(refused=refused)


def _check_spending(config: Config, shown: str) -> None:
    """Raise `ConfigError` if a file that the user has not allowed sets payments."""
    for name, provider in config.providers.items():
        direct = provider.node.get("host_url") and provider.node.get("host_key")
        if provider.api == "node" and not direct:
            raise ConfigError(
                f"{shown} sets payments in [providers.{name}.node], and is neither your own "
                f"configuration nor allowed; read it, then run `toolbridge allow {shown}`"
            )


def _check_server_tools(settings: ServerToolSettings, shown: str) -> None:
    where, why = fault_of(settings)
    if where:
        raise ConfigError(f"{shown}: {where}: {why}")


def parse_provider(text: str, source: str) -> ProviderConfig:
    """Return the provider in a TOML file of `providers/`."""
    return _convert(dict(tomllib.loads(text)), ProviderConfig, source)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}; create one with `toolbridge init`") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _parse(path: Path, content: bytes) -> dict[str, object]:
    try:
        return dict(tomllib.loads(content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


_RENAMED = {"stream": {"most": "max_streams"}}
"""Table → old name of a setting → new name. Old names are accepted with a warning."""


def _rename_old(values: dict[str, object], source: str) -> None:
    """Replace old names of settings by the new ones; a new name that is set as well is used."""
    for table, names in _RENAMED.items():
        entries = _table(values.get(table))
        for old, new in names.items():
            if old in entries:
                text = f"{source}: {table}.{old} is now called {table}.{new}; rename it"
                logging.getLogger("toolbridge").warning("toolbridge: %s", text)
                value = entries.pop(old)
                values[table] = {new: value, **entries}


def _table(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}


def _check_tables(values: Mapping[str, object], source: str) -> None:
    """Raise for an error in one entry of a table; msgspec's own message lacks its name."""
    shapes: dict[str, type] = {"map": str, "providers": ProviderConfig, "models": ModelConfig}
    for table, shape in shapes.items():
        entries = values.get(table, {})
        if not isinstance(entries, dict):
            raise ConfigError(f"{source}: {table}: expected a table, got {entries!r}")
        for name, value in entries.items():
            listed = table == "map" and isinstance(value, list)
            _convert(value, tuple[str, ...] if listed else shape, source, f"{table}.{name}")
    servers = _table(_table(values.get("server_tools")).get("mcp"))
    for name, value in servers.items():
        _convert(value, McpServerSettings, source, f"server_tools.mcp.{name}")
    rules = values.get("routes", [])
    for number, rule in enumerate(rules if isinstance(rules, list) else [], 1):
        _convert(rule, RoutingRule, source, f"routes.{number}")


def _convert(values: object, shape: type[T], source: str, where: str = "") -> T:
    try:
        return msgspec.convert(values, shape)
    except msgspec.ValidationError as error:
        text = explain_setting(str(error), where, shape, _INNER, _TABLES)
        raise ConfigError(text, where=source) from None


_INNER: dict[str, type[msgspec.Struct]] = {
    "rates": RatesConfig,
    "stream": StreamConfig,
    "http": HttpConfig,
    "tls": TlsConfig,
    **SERVER_TOOL_TABLES,
}
_TABLES: dict[type[msgspec.Struct], str] = {
    Config: "the top level",
    ProviderConfig: "a [providers.…] table",
    ModelConfig: "a [models.…] table",
    RoutingRule: "a [[routes]] table",
    RatesConfig: "a `rates` table",
    StreamConfig: "the [stream] table",
    HttpConfig: "the [http] table",
    TlsConfig: "the [tls] table",
    **{shape: f"the [server_tools.{name}] table" for name, shape in SERVER_TOOL_TABLES.items()},
    ServerToolSettings: "the [server_tools] table",
}
