"""The settings of a gateway or client, as types; `config_file.py` reads them."""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec

from toolbridge.cloud_settings import CloudSettings
from toolbridge.core.json import JsonObject
from toolbridge.core.secret_patterns import is_secret_name
from toolbridge.core.server_tools import ServerToolKind
from toolbridge.environment import (
    key_variable,
    secret,
)
from toolbridge.map_settings import MapValue
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
    ServerToolSettings,
    server_tool_secrets,
)
from toolbridge.store_settings import passwords_of

__all__ = [
    "Config", "HttpConfig", "ModelConfig", "ProviderConfig", "RatesConfig",
    "StreamConfig", "TlsConfig", "key_variable", "secret", "secrets_of",
]  # fmt: skip

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
