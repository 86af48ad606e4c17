"""The configuration: defaults, then the file, then the environment, then flags.

The file is `toolbridge.toml`. A word that it does not know is an error that names the nearest word
it does know: a setting that is silently ignored costs an afternoon.
"""

import difflib
import logging
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from toolbridge import trust
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject
from toolbridge.core.secret_patterns import is_secret_name

FILE_NAME = "toolbridge.toml"
T = TypeVar("T")
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Level: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=3)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
"""More than nothing: a timer of zero seconds never lets anything else run."""
Grace: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class RatesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float | None = None
    cache_write: float | None = None


class ProviderConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place that speaks an API."""

    api: str = ""
    url: str = ""
    key: str = ""
    """The key, or where it is: `$NAME`, `${NAME}`, `env:NAME`, `env.NAME`, `os.environ/NAME`."""
    headers: dict[str, str] = {}
    quirks: JsonObject = {}
    window: Size = 0
    """Tokens of context for models of which nothing better is known."""
    window_cap: Size = 0
    """The most context to ask for where the model would take more (Ollama's memory is finite)."""
    passthrough: bool | None = None
    """Whether a client of the same API gets this provider's own bytes, watched but not translated.

    Unset means no, except where a shipped provider says yes and its URL was not changed.
    """
    midstream_failure: Literal["event", "abort"] = "event"
    retries: Size | None = None
    """How often to ask again while the client has heard nothing; unset for what suits the API."""
    connect_timeout: Seconds = 10.0
    idle_timeout: Seconds = 300.0
    node: JsonObject = {}
    """For `api = "node"`: the model, the host and the money."""
    files: Literal["anthropic", "openai", "google", ""] | None = None
    """Whose file ids the provider takes; not given: those of its own API, if it is no known one."""


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known, or wanted, of one model."""

    window: Size = 0
    max_output: Size = 0
    thinking: bool | None = None
    tools: bool | None = None
    vision: bool | None = None
    dialect: str = "auto"
    heal: Level | None = None
    sequential_tools: bool = False
    rates: RatesConfig | None = None
    options: JsonObject = {}
    quirks: JsonObject = {}


class StreamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Structured streams: what callers of `/v1/stream` may use, and how much of it."""

    roots: tuple[str, ...] = ()
    """Directories that `fs.read` may read; none: there is no such tool."""
    databases: dict[str, str] = {}
    """Name → SQLite file that `sqlite.query` may read; none: there is no such tool."""
    tool_hosts: tuple[str, ...] = ()
    """Hosts at which a caller's own tools may be."""
    tools: tuple[str, ...] = ()
    """Python files or modules whose functions marked with `@tool` are offered."""
    schemas: dict[str, str | JsonObject] = {}
    """Name → JSON Schema, or the file that has it."""
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
    """How long a stream waits for a reader that has gone."""
    most: Annotated[int, msgspec.Meta(ge=1)] = 4096
    """Streams under way at the same time."""
    frame_tag: bool = False
    """Whether frames in sentinel mode must carry a tag of their stream in their ids."""
    artifacts: bool = True
    keep_runs: Size = 200
    """Artifacts of how many runs are kept."""
    keep_bytes: Size = 512 * 1024 * 1024
    """Bytes of the artifacts of all runs."""
    run_bytes: Size = 32 * 1024 * 1024
    """Bytes of the artifacts of one run, and of its events in the store."""


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the HTTP server; most apply before a caller has shown a key."""

    max_head: Annotated[int, msgspec.Meta(ge=1024)] = 32 * 1024
    """Bytes of request line and header fields."""
    max_headers: Annotated[int, msgspec.Meta(ge=1)] = 100
    head_timeout: Seconds = 30.0
    """Seconds from the first byte of a head to its last."""
    body_timeout: Seconds = 30.0
    """Seconds without a byte of a body."""
    idle_timeout: Seconds = 75.0
    """Seconds that a connection may wait for its next request.

    Longer than clients keep idle connections themselves (5 to 60 s), so that none is closed while
    a client sends on it.
    """
    max_connections: Annotated[int, msgspec.Meta(ge=1)] = 4096
    """Four times `max_requests`: clients keep idle connections in pools."""
    max_requests: Annotated[int, msgspec.Meta(ge=1)] = 1024
    """Requests under way at the same time; health and metrics are answered beyond it."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: Port = 3456
    key: str = ""
    """The key that clients must send; none is needed on loopback."""
    thinking: Literal["auto", "drop", "reject"] = "auto"
    heal: Level = 2
    max_body: Size = 32 * 1024 * 1024
    keep_alive: Seconds = 10.0
    first_byte: Grace = 5.0
    """How long a status waits for the upstream's own before a stream is opened."""
    stop_grace: Grace = 5.0
    """How long a stop waits for answers that are under way."""
    log: Literal["json", "pretty", "auto", "off"] = "auto"
    store_bytes: Size = 256 * 1024 * 1024
    """Bytes of events, stored responses and results of tools in the database."""
    cors: tuple[str, ...] = ()
    """Origins beyond loopback that may call from a browser; `*` for any."""
    map: dict[str, str] = {}
    """A client's model name, alias or tier → `provider/model`; `default` for every other."""
    providers: dict[str, ProviderConfig] = {}
    models: dict[str, ModelConfig] = {}
    stream: StreamConfig = StreamConfig()
    http: HttpConfig = HttpConfig()


class ConfigSource(msgspec.Struct, frozen=True):
    """The file that is in force."""

    path: Path | None = None
    content: bytes = b""
    refused: str = ""
    """Why the working directory's own file is not used, and what to do; empty if it is."""


def load(
    path: Path | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """Return the configuration in force; raise `ConfigError` that names file, place and way out."""
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
    """Return the configuration that a file, the environment and flags amount to."""
    values = {} if source.path is None else _parse(source.path, source.content)
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    model = given.pop("model", None)
    values |= _from_env(env) | given
    shown = str(source.path or "the environment or the command line")
    _check_tables(values, shown)
    named = _map_from_env(env) | ({} if model is None else {"default": model})
    values["map"] = _table(values.get("map")) | named
    loaded = _convert(values, Config, shown)
    return msgspec.structs.replace(loaded, map=_followed(loaded.map, shown))


def choose(path: Path | None = None, env: Mapping[str, str] = os.environ) -> ConfigSource:
    """Return the file that applies: named, here if allowed, or in the configuration directory.

    To name a file is consent; one that merely lies in the working directory needs to be allowed.
    """
    if named := path or env.get("TOOLBRIDGE_CONFIG"):
        return ConfigSource(Path(named), _read(Path(named)))
    own = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "~")).expanduser() / ".config")
    own = own / "toolbridge" / FILE_NAME
    here, refused = Path(FILE_NAME), ""
    if here.is_file() and not (own.is_file() and here.samefile(own)):
        try:
            return ConfigSource(here.resolve(), trust.read_allowed(here, env))
        except trust.FileNotAllowed as error:
            refused = str(error)
    if own.is_file():
        return ConfigSource(own, _read(own), refused)
    return ConfigSource(refused=refused)


def find(env: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the file that applies."""
    return choose(None, env).path


def parse_provider(text: str, source: str) -> ProviderConfig:
    """Return the provider that a TOML file of `providers/` describes."""
    return _convert(dict(tomllib.loads(text)), ProviderConfig, source)


def secret(value: str, env: Mapping[str, str] = os.environ) -> str:
    """Return a key that was given as itself or by reference; an unset reference is no key."""
    variable = key_variable(value)
    return env.get(variable, "") if variable else value


def key_variable(value: str) -> str:
    """Return the variable that a key refers to; nothing for a key that was given as itself."""
    reference = re.fullmatch(
        r"\$\{?(?P<a>\w+)\}?|env[:.](?P<b>\w+)|os\.environ/(?P<c>\w+)", value.strip()
    )
    return "" if reference is None else next(name for name in reference.groups() if name)


def secrets_of(
    config: Config, providers: Iterable[ProviderConfig], env: Mapping[str, str] = os.environ
) -> list[str]:
    """Return every configured secret: what must never be written down."""
    found = [secret(config.key, env)]
    for provider in providers:
        found.append(secret(provider.key, env))
        found += [
            secret(value, env).removeprefix("Bearer ").removeprefix("Basic ")
            for name, value in provider.headers.items()
            if is_secret_name(name) or name.lower().endswith(("auth", "key"))
        ]
    return [value for value in found if value]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}; `toolbridge init` writes one") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _parse(path: Path, content: bytes) -> dict[str, object]:
    try:
        return dict(tomllib.loads(content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


_ENV = {
    "host": ("TOOLBRIDGE_HOST",),
    "port": ("TOOLBRIDGE_PORT", "PORT", "CLAUDE_BRIDGE_PORT"),
    "key": ("TOOLBRIDGE_KEY", "TOOLBRIDGE_API_KEY", "CLAUDE_BRIDGE_API_KEY"),
    "thinking": ("TOOLBRIDGE_THINKING",),
    "log": ("TOOLBRIDGE_LOG",),
}
_MAP_ENV = {
    "default": "TOOLBRIDGE_MODEL",
    "opus": "MODEL_OPUS",
    "sonnet": "MODEL_SONNET",
    "haiku": "MODEL_HAIKU",
}


def _from_env(env: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, variables in _ENV.items():
        variable = next((v for v in variables if env.get(v)), None)
        if variable is None:
            continue
        value = env[variable]
        if name == "port":
            if re.fullmatch(r"[0-9]{1,5}", value) is None or int(value) > 65535:
                raise ConfigError(f"must be a port number, not {value!r}", where=variable)
            values[name] = int(value)
        else:
            values[name] = value
    return values


def _map_from_env(env: Mapping[str, str]) -> dict[str, object]:
    return {name: env[variable] for name, variable in _MAP_ENV.items() if env.get(variable)}


def _table(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}


def _followed(table: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the map with every name that stands for another name of it replaced by an address."""
    found: dict[str, str] = {}
    for name in table:
        address, seen = table[name], [name]
        while address in table and address != seen[-1]:
            if address in seen:
                chain = " → ".join([*seen, address])
                raise ConfigError(f"{source}: map: {chain} goes round in a circle")
            seen.append(address)
            address = table[address]
        found[name] = address
    return found


def _check_tables(values: Mapping[str, object], source: str) -> None:
    """Raise for a fault in one entry of a table: msgspec's own words leave out its name."""
    shapes: dict[str, type] = {"map": str, "providers": ProviderConfig, "models": ModelConfig}
    for table, shape in shapes.items():
        entries = values.get(table, {})
        if not isinstance(entries, dict):
            raise ConfigError(f"{source}: {table}: expected a table, got {entries!r}")
        for name, value in entries.items():
            _convert(value, shape, source, f"{table}.{name}")


def _convert(values: object, shape: type[T], source: str, where: str = "") -> T:
    try:
        return msgspec.convert(values, shape)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_explain(str(error), where, shape)}") from None


_PLACES: dict[type[msgspec.Struct], str] = {
    Config: "the top level",
    ProviderConfig: "a [providers.…] table",
    ModelConfig: "a [models.…] table",
    RatesConfig: "a `rates` table",
    StreamConfig: "the [stream] table",
    HttpConfig: "the [http] table",
}


def _explain(text: str, where: str, shape: type) -> str:
    text, _, at = text.partition(" - at `")
    inner = at.removesuffix("`").removeprefix("$").strip(".")
    place = ".".join(part for part in (where, inner) if part) or "the top level"
    unknown = re.fullmatch(r"Object contains unknown field `(.+)`", text)
    if unknown is None:
        return f"{place}: {text[:1].lower()}{text[1:]}"
    holder = {"rates": RatesConfig, "stream": StreamConfig, "http": HttpConfig}.get(inner) or shape
    return f"{place}: there is no setting `{unknown[1]}`{_hint(unknown[1], holder)}"


def _hint(word: str, holder: type[msgspec.Struct]) -> str:
    known = _fields(holder)
    if near := difflib.get_close_matches(word, known, 1):
        return f"; did you mean `{near[0]}`?"
    place = next((place for struct, place in _PLACES.items() if word in _fields(struct)), "")
    return f"; it belongs to {place}" if place else ""


def _fields(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return struct.__struct_fields__
