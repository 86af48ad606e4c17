"""The configuration: defaults, then the file, then the environment, then flags.

The file is `toolbridge.toml`; `docs/reference/settings.md` lists its settings. An unknown setting is
an error that names the nearest known one, because a misspelled setting would otherwise be ignored.
"""

import logging
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from toolbridge import trust
from toolbridge.cloud_settings import CloudSettings
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject
from toolbridge.core.secret_patterns import is_secret_name
from toolbridge.core.server_tools import ServerToolKind
from toolbridge.environment import (
    empty_key_variable,
    key_variable,
    models_from,
    secret,
    settings_from,
    variables_from,
)
from toolbridge.map_settings import MapValue, follow_map
from toolbridge.policy.routing_rules import RoutingRule
from toolbridge.server_settings import (
    Grace,
    HttpConfig,
    Port,
    Seconds,
    ServerSettings,
    Size,
    TlsConfig,
)
from toolbridge.server_tool_settings import (
    SERVER_TOOL_TABLES,
    McpServerSettings,
    ServerToolSettings,
    fault_of,
    server_tool_secrets,
)
from toolbridge.setting_errors import explain_setting, line_of
from toolbridge.store_settings import check_servers, passwords_of

__all__ = [
    "Config", "ConfigSource", "HttpConfig", "ModelConfig", "ProviderConfig", "RatesConfig",
    "StreamConfig", "TlsConfig", "choose", "key_variable", "load", "parse_provider", "read",
    "secret", "secrets_of",
]  # fmt: skip

FILE_NAME = "toolbridge.toml"
T = TypeVar("T")
Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Level: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=3)]


ToolModeSetting: TypeAlias = Literal["auto", "native", "prompt", "constrained"]


class RatesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    input: Rate = 0.0
    output: Rate = 0.0
    cache_read: Rate | None = None
    cache_write: Rate | None = None


class ProviderConfig(CloudSettings, frozen=True, forbid_unknown_fields=True):
    """A provider: its API, URL, key and quirks."""

    api: str = ""
    url: str = ""
    key: str = ""
    """The key, or its variable: `$NAME`, `${NAME}`, `env:NAME`, `env.NAME`, `os.environ/NAME`.

    `caller` forwards the login of each caller, to this provider only.
    """
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    quirks: JsonObject = msgspec.field(default_factory=dict)
    window: Size = 0
    """The context window in tokens, for models without a known one."""
    window_cap: Size = 0
    """The largest context window to request, for models with a larger one (Ollama reserves memory)."""
    passthrough: bool | None = None
    """Whether a client of the same API gets this provider's own bytes, without translation.

    Unset means no, except for a built-in provider that sets it and whose URL was not changed.
    """
    midstream_failure: Literal["event", "abort"] = "event"
    counting: Literal["auto", "words4", "chars4"] = "auto"
    """How input tokens are counted: by the provider or an estimate, or by one of two simple rules."""
    retries: Size | None = None
    """The number of retries while the client has received nothing; unset for the API's default."""
    connect_timeout: Seconds = 10.0
    first_byte_timeout: Grace = 0.0
    """Seconds from the request to the first content of a streamed answer; 0 for `idle_timeout` only."""
    idle_timeout: Seconds = 300.0
    total_timeout: Grace = 0.0
    """Seconds from the request to the end of the answer; 0 for no limit."""
    max_in_flight: Size = 0
    """The maximum number of concurrent requests to the provider; others wait. 0 for no limit."""
    node: JsonObject = msgspec.field(default_factory=dict)
    """For `api = "node"`: the model, the host and the payment."""
    files: Literal["anthropic", "openai", "google", ""] | None = None
    """The vendor whose file ids the provider accepts; unset for those of its API (a user's server)."""
    server_tools: tuple[ServerToolKind, ...] | None = None
    """The server tools that the provider runs itself; clients of other APIs get them there. Unset for
    none, except for a built-in provider that sets it and whose URL was not changed."""
    other_apis: dict[str, JsonObject] = msgspec.field(default_factory=dict)
    """Further APIs that the provider serves at the same URL, with the quirks of each. A client of one
    of these is served in it, unless the model needs `api` for the request."""
    assumed: tuple[str, ...] = ()
    """Settings that were read in documentation and not checked with the provider itself."""
    tool_mode: ToolModeSetting = "auto"
    """How tools reach the provider's models; `auto` is chosen and learned for each model."""
    pin_slots: bool = True
    """Whether a conversation keeps its slot of a llama.cpp server that has several."""
    constraint: Literal["json_schema", ""] | None = None
    """How the provider constrains an answer to a schema; unset for what its API has."""


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The capabilities and options of one model."""

    window: Size = 0
    max_output: Size = 0
    thinking: bool | None = None
    tools: bool | None = None
    vision: bool | None = None
    dialect: str = "auto"
    heal: Level | None = None
    sequential_tools: bool = False
    tool_mode: ToolModeSetting | None = None
    """How tools reach the model; unset for the provider's setting."""
    rates: RatesConfig | None = None
    options: JsonObject = {}
    quirks: JsonObject = {}


class StreamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Structured streams: what callers of `/v1/stream` may use, and its limits."""

    roots: tuple[str, ...] = ()
    """Directories that `fs.read` may read; without any, there is no such tool."""
    databases: dict[str, str] = {}
    """Name → SQLite file that `sqlite.query` may read; without any, there is no such tool."""
    tool_hosts: tuple[str, ...] = ()
    """Hosts of tools that a caller may define by URL."""
    tools: tuple[str, ...] = ()
    """Python files or modules with functions marked with `@tool`."""
    schemas: dict[str, str | JsonObject] = {}
    """Name → JSON Schema, or the path of its file."""
    demo: bool = False
    """Whether every stream may use the demo's tools and schemas.

    Streams of the demo model and of the profile `demo` may always use them.
    """
    profiles: dict[str, JsonObject] = {}
    frame: Annotated[int, msgspec.Meta(ge=1)] = 65_536
    depth: Annotated[int, msgspec.Meta(ge=1)] = 16
    arguments: Annotated[int, msgspec.Meta(ge=1)] = 32_768
    result: Annotated[int, msgspec.Meta(ge=1)] = 65_536
    ping: Seconds = 15.0
    grace: Seconds = 30.0
    """Seconds for which a stream without readers goes on."""
    max_streams: Annotated[int, msgspec.Meta(ge=1)] = 4096
    """The maximum number of concurrent streams."""
    frame_tag: bool = False
    """Whether frame ids in sentinel mode must contain the tag of their stream."""
    artifacts: bool = True
    keep_runs: Size = 200
    """The number of runs whose artifacts are kept."""
    keep_bytes: Size = 512 * 1024 * 1024
    """The maximum size of the artifacts of all runs, in bytes."""
    run_bytes: Size = 32 * 1024 * 1024
    """The maximum size of one run's artifacts, and of its events in the store, in bytes."""


class Config(ServerSettings, frozen=True, forbid_unknown_fields=True):
    """All settings of a gateway or client."""

    host: str = "127.0.0.1"
    port: Port = 3456
    key: str = ""
    """The key that clients must send; optional on loopback."""
    thinking: Literal["auto", "drop", "reject"] = "auto"
    heal: Level = 2
    max_body: Size = 32 * 1024 * 1024
    keep_alive: Seconds = 10.0
    first_byte: Grace = 5.0
    """Seconds to wait for the provider's status before a stream is opened."""
    log: Literal["json", "pretty", "auto", "off"] = "auto"
    store_bytes: Size = 256 * 1024 * 1024
    """The maximum size of events, stored responses and tool results in the database, in bytes."""
    explain_bytes: Size = 16 * 1024 * 1024
    """The maximum size of past requests that are kept in memory for `toolbridge explain`, in bytes."""
    record: str = ""
    """The directory to which every model request is recorded; empty for none."""
    record_files: Size = 1000
    """The number of recordings that are kept."""
    record_bytes: Size = 256 * 1024 * 1024
    """The maximum size of all recordings, in bytes."""
    store: str = "auto"
    """Where values, events, claims and budgets are kept: a file, or the URL of a Redis server."""
    ledger: str = "auto"
    """Where requests to models are recorded and keys are kept: a file, `off`, or a PostgreSQL URL."""
    ledger_days: Annotated[int, msgspec.Meta(ge=1)] = 90
    """Days for which rows of the ledger are kept."""
    otel: str = ""
    """The URL of an OpenTelemetry collector, or `env` for OpenTelemetry's own variables."""
    limits_offline: Literal["refuse", "allow"] = "refuse"
    """What happens to requests of keys with limits while the limits cannot be checked."""
    loop_guard: Size = 0
    """Repetitions of a call after which the model gets a note; 0 for no guard."""
    cors: tuple[str, ...] = ()
    """Origins other than loopback whose pages may call the gateway; `*` for any."""
    map: dict[str, MapValue] = msgspec.field(default_factory=dict)
    """A client's model name, alias or tier → `provider/model`, or a list of these that are tried in
    order; `default` for every other name."""
    routes: tuple[RoutingRule, ...] = ()
    """Rules that select a model by what a request is; the first that matches decides."""
    describe_images: str = ""
    """The model that describes images for models that accept none; empty leaves the images out."""
    providers: dict[str, ProviderConfig] = msgspec.field(default_factory=dict)
    models: dict[str, ModelConfig] = msgspec.field(default_factory=dict)
    stream: StreamConfig = StreamConfig()
    server_tools: ServerToolSettings = ServerToolSettings()


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
    _check_alone(given, "the command line")
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


def secrets_of(
    config: Config, providers: Iterable[ProviderConfig], env: Mapping[str, str] = os.environ
) -> list[str]:
    """Return every configured secret, for the redactor."""
    found = [
        secret(config.key, env),
        *passwords_of((config.store, config.ledger), env),
        *server_tool_secrets(config.server_tools, env),
    ]
    for provider in providers:
        found.append(secret(provider.key, env))
        if provider.cloud:
            found += [env.get(variable, "") for variable in _CLOUD_SECRETS]
        found += [
            secret(value, env).removeprefix("Bearer ").removeprefix("Basic ")
            for name, value in provider.headers.items()
            if is_secret_name(name) or name.lower().endswith(("auth", "key"))
        ]
    return [value for value in found if value]


_CLOUD_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_OPENAI_AD_TOKEN")
"""Variables with secrets that a provider in a cloud uses without naming them in its settings."""


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
        raise ConfigError(f"{source}: {text}") from None


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
