"""The configuration that an importer collects, and the notes about what it could not carry.

Each importer reads the file of another gateway and calls the methods of `ConfigDraft`. Keys are never
copied: a reference to an environment variable stays one, and a key that is written in the file
becomes a note with the variable to set.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from toolbridge import providers
from toolbridge.config import ProviderConfig
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json, JsonObject
from toolbridge.environment import key_variable
from toolbridge.upstream.hosts import hostname, is_loopback

Table: TypeAlias = dict[str, Json]
_PLACEHOLDER = re.compile(
    r"(sk|key|token)?[-_ ]?(none|null|nil|empty|dummy|fake|test|placeholder|unused|ignored|any|anything"
    r"|no[-_ ]?(api[-_ ]?)?key([-_ ]?(needed|required))?|not?[-_ ]?(needed|required|used)|n/?a|string"
    r"|[x*.]+|0+|123|1234|12345|123456|ollama|vllm|lm[-_ ]?studio|your[-_ ]?(api[-_ ]?)?key)"
    r"([-_ ]?(api[-_ ]?)?(key|token))?",
    re.IGNORECASE,
)
"""What people write where a client demands a key and the server does not."""


class ImportNote(msgspec.Struct, frozen=True):
    """Something that was not carried, or that the user must do."""

    where: str
    """The path in the file: `model_list.2.litellm_params.rpm`."""
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


class Endpoint(msgspec.Struct, frozen=True):
    """A provider as the other gateway describes it."""

    name: str
    """The name for its table, if it needs one."""
    base: str = ""
    """The built-in provider that it is; empty for a server of the user's."""
    api: str = ""
    url: str = ""
    key: str = ""
    """The key as it is written: a reference to a variable, or the key itself."""
    more: tuple[tuple[str, Json], ...] = ()
    """Further settings of its table, such as `region`."""
    keeps_name: bool = False
    """Whether clients send `name`, so that a built-in provider gets a table of this name."""


class ConfigDraft:
    """A `toolbridge.toml` while an importer writes it."""

    def __init__(self) -> None:
        self.settings: Table = {}
        self.map: dict[str, tuple[str, ...]] = {}
        """A name → its addresses, in the order in which they are tried."""
        self.routes: list[Table] = []
        self.providers: dict[str, Table] = {}
        self.models: dict[str, Table] = {}
        self.notes: list[ImportNote] = []
        self._names: dict[Endpoint, str] = {}

    def __bool__(self) -> bool:
        """Whether anything was carried."""
        return any((self.settings, self.map, self.routes, self.providers, self.models))

    def note(self, where: str, text: str) -> None:
        self.notes.append(ImportNote(where, text))

    def rest(self, where: str, table: Mapping[str, Json], known: Iterable[str]) -> None:
        """Note every field of `table` that is not `known`."""
        for name in table.keys() - set(known):
            self.note(f"{where}.{name}" if where else name, "has no equivalent; not carried")

    def provider(self, endpoint: Endpoint, where: str) -> str:
        """Return the name of the provider of `endpoint`, with a table if it needs one."""
        base = endpoint.base or built_in_at(endpoint.url)
        builtin = providers.load(base) if base else ProviderConfig()
        table: Table = {}
        if endpoint.url and _plain(endpoint.url) != _plain(builtin.url):
            table["api"] = endpoint.api or builtin.api
            table["url"] = endpoint.url
        table |= dict(endpoint.more)
        key = self._key(endpoint, builtin, f"{where}", base or endpoint.name)
        if key and key != builtin.key:
            table["key"] = key
        name = endpoint.name if endpoint.keeps_name else base or endpoint.name
        same = msgspec.structs.replace(endpoint, name=name, key=key)
        if same not in self._names:
            self._names[same] = self._table(same.name, base, builtin, table)
        return self._names[same]

    def _table(self, name: str, base: str, builtin: ProviderConfig, table: Table) -> str:
        """Add a provider's table under a name that is free; return the name."""
        taken = {*self.providers, *self._names.values()}
        free, number = name, 2
        while free in taken:
            free, number = f"{name}-{number}", number + 1
        if free != base and base:  # a second one of a built-in provider has none of its settings
            table = {"api": builtin.api, "url": builtin.url, "key": builtin.key, **table}
            if table["api"] == builtin.api:
                table |= _own_settings(builtin)
            if builtin.cloud:
                table = {"cloud": builtin.cloud} | {
                    field: value for field, value in table.items() if field not in {"api", "url"}
                }
        if table:
            self.providers[free] = table
        return free

    def _key(self, endpoint: Endpoint, builtin: ProviderConfig, where: str, name: str) -> str:
        written = endpoint.key.strip()
        if not written:
            return ""
        if variable := key_variable(written):
            return f"${variable}"
        if _PLACEHOLDER.fullmatch(written) and _is_own_server(builtin):
            self.note(
                where, "is a placeholder, so no key is sent; set `key` if the server needs one"
            )
            return ""
        own = key_variable(builtin.key) or f"{variable_name(name)}_API_KEY"
        self.note(where, f"a key is written in the file and was not copied; set it as {own}")
        return f"${own}"

    def model(self, address: str, settings: Mapping[str, Json]) -> None:
        """Set options of a model; the first value of each counts."""
        if settings:
            self.models[address] = {**settings, **self.models.get(address, {})}

    def free_name(self, name: str) -> str:
        """Return `name`, with further marks if the map has it."""
        while name in self.map:
            name += "-chain"
        return name

    def gateway_key(self, value: str, where: str) -> None:
        """Set the key that clients must send."""
        if variable := key_variable(value):
            self.settings["key"] = f"${variable}"
        elif value:
            self.note(where, "a key is written in the file and was not copied; set TOOLBRIDGE_KEY")


def _is_own_server(builtin: ProviderConfig) -> bool:
    """Whether the server is the user's: none of a vendor, which always demands a key."""
    return not builtin.cloud and (not builtin.url or is_loopback(hostname(builtin.url)))


def _own_settings(builtin: ProviderConfig) -> Table:
    """Return the settings of a built-in provider that do not follow from its URL."""
    own: Table = {"headers": dict(builtin.headers), "quirks": dict(builtin.quirks)}
    own |= {"constraint": builtin.constraint, "other_apis": dict(builtin.other_apis)}
    return {field: value for field, value in own.items() if value}


def built_in_at(url: str) -> str:
    """Return the built-in provider at a URL; an empty string for none."""
    plain = _plain(url)
    names = (
        name for name in providers.names() if plain and _plain(providers.load(name).url) == plain
    )
    return next(names, "")


def _plain(url: str) -> str:
    """Return a URL in the form in which two are compared."""
    split = urlsplit(url.rstrip("/."))
    host = "127.0.0.1" if split.hostname == "localhost" else split.hostname or ""
    port = f":{split.port}" if split.port else ""
    path = split.path.rstrip("/")
    # Ollama serves its own API beside `/v1`; the version of a vendor's path is often left out.
    path = path.removesuffix("/v1") if path == "/v1" else path
    return f"{host}{port}{path}".lower()


def variable_name(name: str) -> str:
    """Return the beginning of the variables of a provider: `MY_VLLM` for `my-vllm`."""
    found = re.sub(r"[^A-Z0-9]", "_", name.upper()).strip("_") or "PROVIDER"
    return f"SERVER_{found}" if found[0].isdigit() else found


def host_name(url: str) -> str:
    """Return a name for a server of the user's by its URL: `vllm-internal`, `local-8000`."""
    try:
        split = urlsplit(url)
        host, port = split.hostname or "server", split.port
    except ValueError:
        return "server"
    if host in {"localhost", "127.0.0.1", "::1", "0.0.0.0", "host.docker.internal"}:  # noqa: S104
        return f"local-{port}" if port else "local"
    named = "".join(c if c.isalnum() else "-" for c in host).strip("-")
    return f"{named}-{port}" if port else named


def text_of(table: Mapping[str, Json], name: str) -> str:
    value = table.get(name)
    return value if isinstance(value, str) else ""


def object_of(table: Mapping[str, Json], name: str) -> JsonObject:
    value = table.get(name)
    return value if isinstance(value, dict) else {}


def objects_of(table: Mapping[str, Json], name: str) -> list[JsonObject]:
    value = table.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def table_of(source: Mapping[str, Json], name: str) -> JsonObject:
    """Return a table at the top of a file, empty if absent; raise `ConfigError` for anything else."""
    value = source.get(name)
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"must be a table, and is {_kind(value)}", where=name)
    return value or {}


def entries_of(
    source: Mapping[str, Json], name: str, draft: ConfigDraft, within: str = ""
) -> list[tuple[str, JsonObject]]:
    """Return the tables of a list, each with its place; note every other entry.

    Raise `ConfigError` if there is something else than a list.
    """
    value, where = source.get(name), f"{within}.{name}" if within else name
    if value is not None and not isinstance(value, list):
        raise ConfigError(f"must be a list of tables, and is {_kind(value)}", where=where)
    found: list[tuple[str, JsonObject]] = []
    for number, one in enumerate(value or []):
        if isinstance(one, dict):
            found.append((f"{where}.{number}", one))
        else:
            draft.note(f"{where}.{number}", f"must be a table, and is {_kind(one)}; not carried")
    return found


def name_of(entry: JsonObject, field: str, where: str, draft: ConfigDraft) -> str:
    """Return the name of an entry; an empty string, with a note, if it is missing or not a text."""
    name = text_of(entry, field).strip()
    if not name:
        draft.note(f"{where}.{field}", "must be a text; the entry was not carried")
    return name


def _kind(value: Json) -> str:
    kinds = {str: "a text", list: "a list", dict: "a table", bool: "a truth value"}
    return "empty" if value is None else kinds.get(type(value), "a number")
