"""The providers of one gateway or client: configured ones, merged with the built-in ones.

`find_providers` also checks the settings, so that a wrong provider name, quirk, dialect or URL is
reported at start. The other functions answer questions about one provider: whether its key is
missing, whether it is a vendor's own server, whether bytes are passed through.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from urllib.parse import urlsplit

import msgspec

from toolbridge import codecs, dialects, providers
from toolbridge.config import Config, ProviderConfig, key_variable, secret
from toolbridge.core.close_names import close_names
from toolbridge.core.codec import Target
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Request, Text, Turn
from toolbridge.environment import CALLER
from toolbridge.map_settings import addresses_of
from toolbridge.policy.routing_rules import check_rules
from toolbridge.routing.nodes import NODE, check_node_quirks, read_node_settings
from toolbridge.routing.provider_urls import fill_variables, unset_variables
from toolbridge.upstream.addresses import is_private_host
from toolbridge.upstream.clouds.available import missing_credentials, missing_place
from toolbridge.upstream.clouds.models import cloud_quirks
from toolbridge.upstream.hosts import hostname, is_loopback

DEMO = "demo"
LOCAL = "local"
"""The provider of `toolbridge serve --local`, which other commands do not have."""
OLLAMA = "ollama"
OLLAMA_PORT = 11434
_URLS = {"groq": "GROQ_BASE_URL", "vllm": "VLLM_BASE_URL"}
"""Variables with the URL of a provider. Variables that clients read too, such as OPENAI_BASE_URL,
are not used: they may point to this gateway."""


def find_providers(config: Config, env: Mapping[str, str]) -> dict[str, ProviderConfig]:
    """Return every provider, the configured ones first, then the built-in ones."""
    found: dict[str, ProviderConfig] = {}
    for name, provider_config in config.providers.items():
        base = name if name in providers.names() else provider_config.cloud
        known = fill_variables(providers.load(base), env) if base in providers.names() else None
        found[name] = _merge(name, fill_variables(provider_config, env), known)
    for name in providers.names():
        found.setdefault(name, fill_variables(providers.load(name), env))
    if (host := env.get("OLLAMA_HOST")) and OLLAMA not in config.providers:
        found[OLLAMA] = msgspec.structs.replace(found[OLLAMA], url=_ollama_url(host))
    for name, variable in _URLS.items():
        if (url := env.get(variable)) and name not in config.providers:
            found[name] = msgspec.structs.replace(found[name], url=url)
    _check_map(config, found)
    _check_models(config, found)
    check_rules(config.routes, found)
    _check_dialects(config)
    _check_tool_modes(config)
    return found


def missing_key(name: str, provider_config: ProviderConfig, env: Mapping[str, str]) -> str:
    """Return the variable of a key that the provider needs and that is not set; empty otherwise.

    A variable of its URL or headers counts too. A user's own server needs a key only if the
    configuration names one.
    """
    if provider_config.cloud:
        lacks = missing_credentials(provider_config, env)
        return (key_variable(provider_config.key) or "key") if lacks else ""
    if unset := unset_variables(provider_config):
        return unset[0]
    variable = key_variable(provider_config.key)
    if not variable or provider_config.api == NODE or secret(provider_config.key, env):
        return ""
    known = (
        fill_variables(providers.load(name), env) if name in providers.names() else ProviderConfig()
    )
    elsewhere = (
        bool(known.url) and provider_config.url != known.url and provider_config.key == known.key
    )
    return "" if elsewhere or is_loopback(hostname(provider_config.url)) else variable


def cloud_lacks(name: str, provider_config: ProviderConfig, env: Mapping[str, str]) -> str:
    """Return what a cloud's provider without credentials lacks, as a clause; empty for any other."""
    lacks = missing_credentials(provider_config, env) if provider_config.cloud else ""
    if not lacks:
        return ""
    place = missing_place(name, provider_config, env)
    return f"which has {lacks}" + (f". In addition, {name} {place}" if place else "")


def _check_map(config: Config, provider_configs: Mapping[str, ProviderConfig]) -> None:
    """Raise for an address whose provider is a misspelled provider name.

    Any other word before a slash may be part of a model's own name (`meta-llama/…`).
    """
    for name, entry in config.map.items():
        for address in addresses_of(entry):
            provider, slash, _ = address.partition("/")
            if not slash or provider in provider_configs:
                continue
            if near := close_names(provider, provider_configs, cutoff=0.9):
                raise ConfigError(
                    f"there is no provider {provider!r}; did you mean {near[0]!r}?",
                    where=f"map.{name}",
                )


def _check_models(config: Config, provider_configs: Mapping[str, ProviderConfig]) -> None:
    """Raise for a `[models]` table of a provider that does not exist."""
    for address in config.models:
        provider, slash, _ = address.partition("/")
        if slash and provider not in provider_configs and provider != LOCAL:
            near = close_names(provider, provider_configs, 1)
            hint = (
                f"did you mean {near[0]!r}?"
                if near
                else f"providers are {', '.join(provider_configs)}."
            )
            raise ConfigError(
                f"there is no provider {provider!r}; {hint} A model whose own name has a slash is "
                f'written with its provider: [models."PROVIDER/{address}"]',
                where=f"models.{address}",
            )


def _check_dialects(config: Config) -> None:
    for name, settings in config.models.items():
        if settings.dialect in {"auto", "off"}:
            continue
        known = ["auto", "off", *dialects.names()]
        if settings.dialect not in known:
            near = close_names(settings.dialect, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"
            text = f"there is no dialect {settings.dialect!r}; {hint}"
            raise ConfigError(text, where=f"models.{name}.dialect")


def _check_tool_modes(config: Config) -> None:
    for name, settings in config.models.items():
        if settings.tool_mode == "native" and settings.tools is False:
            text = "`native` contradicts `tools = false`; remove one of the two"
            raise ConfigError(text, where=f"models.{name}.tool_mode")


def _check_quirks(provider_config: ProviderConfig) -> None:
    """Raise for a quirk that the provider's API does not have, by encoding a small request."""
    if provider_config.api == NODE:
        check_node_quirks(provider_config)
    elif provider_config.quirks and provider_config.api != DEMO:
        asked = Request(model="m", turns=(Turn("user", (Text("hi"),)),))
        codecs.load_target(provider_config.api).encode_request(
            asked, Target(model="m", quirks=provider_config.quirks)
        )
    for api, quirks in provider_config.other_apis.items():
        _check_quirks(
            msgspec.structs.replace(provider_config, api=api, quirks=quirks, other_apis={})
        )


def _over(provider_config: ProviderConfig, known: ProviderConfig) -> ProviderConfig:
    """Return the built-in settings, replaced by those that the user gave."""
    blank = ProviderConfig()
    given = {
        field: value
        for field in ProviderConfig.__struct_fields__
        if (value := getattr(provider_config, field)) != getattr(blank, field)
    }
    if provider_config.url not in {"", known.url}:
        # The provider's name, but another server: these settings describe the vendor's own.
        given.setdefault("passthrough", None)
        given.setdefault("files", None)
        given.setdefault("server_tools", None)
        # Servers that imitate a vendor usually have its older API.
        if known.other_apis and not provider_config.api:
            given["api"] = next(iter(known.other_apis))
    api = given.get("api", known.api)
    if api != known.api:  # the built-in quirks belong to the other API
        given.setdefault("quirks", known.other_apis.get(api, {}))
        given.setdefault("other_apis", {})
    # What the user sets is not assumed any more.
    given["assumed"] = tuple(p for p in known.assumed if p.partition(".")[0] not in given)
    given["headers"] = _with_headers(known.headers, provider_config.headers)
    # The user's patterns come first, so that they decide.
    given["apis"] = {**provider_config.apis, **known.apis, **provider_config.apis}
    return msgspec.structs.replace(known, **given)


def _merge(
    name: str, provider_config: ProviderConfig, known: ProviderConfig | None
) -> ProviderConfig:
    if known is not None:
        provider_config = _over(provider_config, known)
    where = f"providers.{name}"
    if not provider_config.api:
        apis = ", ".join([*codecs.target_names(), NODE])
        near = close_names(name, providers.names(), 1) if known is None else ()
        meant = f"; did you mean [providers.{near[0]}]?" if near else ""
        raise ConfigError(f"needs `api`, one of {apis}{meant}", where=where)
    if provider_config.node and provider_config.api != NODE:
        raise ConfigError('takes a `node` table only with api = "node"', where=where)
    if provider_config.api == NODE:
        read_node_settings(name, provider_config)
    elif provider_config.api != DEMO:
        try:
            for api in (provider_config.api, *provider_config.apis.values()):
                codecs.load_target(api)
        except ConfigError as error:
            raise ConfigError(error.problem.text, where=f"{where}.api") from None
        if not _is_url(provider_config.url):
            raise _url_error(provider_config.url, where)
    try:
        _check_quirks(provider_config)
    except ConfigError as error:
        raise ConfigError(str(error), where=where) from None
    return provider_config


def config_for(provider_config: ProviderConfig, model: str) -> ProviderConfig:
    """Return the settings for one model: its API may differ from that of the provider's others."""
    if not (provider_config.apis or provider_config.cloud):
        return provider_config
    found = (api for name, api in provider_config.apis.items() if fnmatchcase(model, name))
    api = next(found, provider_config.api)
    # Quirks belong to an API, so those of the provider are for models of its own one.
    own = provider_config.quirks if api == provider_config.api else {}
    known = cloud_quirks(model, api) if provider_config.cloud else {}
    return msgspec.structs.replace(provider_config, api=api, quirks={**known, **own})


def _with_headers(known: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the built-in headers with the user's; an empty value removes a header."""
    own = {name.lower() for name in given}
    kept = {name: value for name, value in known.items() if name.lower() not in own}
    return kept | {name: value for name, value in given.items() if value}


def is_first_party(provider_config: ProviderConfig) -> bool:
    """Return whether the URL is a vendor's own server: one with passthrough in its built-in file."""
    return _host(provider_config.url) in _first_party_hosts()


def runs_server_tools(provider_config: ProviderConfig, origin: str) -> bool:
    """Return whether the provider itself runs server tools of the API `origin`.

    Engines on private addresses have their vendor's API, but none of the vendor's tools.
    """
    if provider_config.api != origin:
        return False
    host = _host(provider_config.url)
    return is_first_party(provider_config) or not (is_loopback(host) or is_private_host(host))


def is_vendor_host(provider_config: ProviderConfig) -> bool:
    """Return whether the URL is on the host of a built-in provider that is not on this machine."""
    host = _host(provider_config.url)
    return host in _vendor_hosts() and not is_loopback(host)


@cache
def _vendor_hosts() -> frozenset[str]:
    return frozenset(_host(providers.load(name).url) for name in providers.names())


def quirks_of_host(provider_config: ProviderConfig) -> JsonObject:
    """Return the quirks that follow from the provider's URL alone.

    OpenAI, Responses API: `prompt_cache_retention` is a field of OpenAI's own servers.
    """
    host = _host(provider_config.url)
    is_openai = host == "openai.com" or host.endswith(".openai.com")
    return {"openai": True} if is_openai and provider_config.api == "openai_responses" else {}


def passes_through(provider_config: ProviderConfig) -> bool:
    """Return whether a client of the same API gets the provider's own bytes.

    A provider with the caller's own login does: the login may be bound to the caller's exact request.
    """
    if provider_config.passthrough is not None:
        return provider_config.passthrough
    return provider_config.key == CALLER or is_first_party(provider_config)


def whose_files(name: str, provider_config: ProviderConfig) -> str | None:
    """Return the vendor whose file ids the provider accepts; None if unknown (a user's server)."""
    if provider_config.files is not None:
        return provider_config.files
    hosts, names = _shipped_files()
    return hosts.get(_host(provider_config.url), names.get(name))


@cache
def _shipped_files() -> tuple[dict[str, str], dict[str, str]]:
    """Return the vendors of file ids by host, and the built-in providers that accept none."""
    known = {name: providers.load(name) for name in providers.names()}
    hosts: dict[str, str] = {_host(one.url): one.files or "" for one in known.values() if one.url}
    hosts.pop("127.0.0.1", None)
    return hosts, {name: "" for name, one in known.items() if not one.files}


def own_server_tools(provider_config: ProviderConfig) -> frozenset[str]:
    """Return the server tools that the provider runs itself; none for an unknown server."""
    if provider_config.server_tools is not None:
        return frozenset(provider_config.server_tools)
    return _shipped_server_tools().get(_host(provider_config.url), frozenset())


@cache
def _shipped_server_tools() -> dict[str, frozenset[str]]:
    """Return the server tools of vendors by host."""
    known = (providers.load(name) for name in providers.names())
    return {_host(one.url): frozenset(one.server_tools) for one in known if one.server_tools}


@cache
def _first_party_hosts() -> frozenset[str]:
    known = (providers.load(name) for name in providers.names())
    return frozenset(
        _host(provider_config.url) for provider_config in known if provider_config.passthrough
    )


@lru_cache(256)
def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _url_error(url: str, where: str) -> ConfigError:
    """Return the error for a missing or invalid `url`."""
    if not url:
        text = 'needs `url`, for example url = "http://127.0.0.1:8080"'
    elif "://" not in url and _is_url(f"http://{url}"):
        text = f'`url` needs a scheme, for example url = "http://{url}"'
    else:
        text = f'`url` must be the URL of a server, such as "http://127.0.0.1:8080", and is {url!r}'
    return ConfigError(text, where=where)


def _is_url(text: str) -> bool:
    try:
        split = urlsplit(text)
        return split.scheme in {"http", "https"} and bool(split.hostname) and (split.port or 1) > 0
    except ValueError:
        return False


def _ollama_url(host: str) -> str:
    """Return the value of `OLLAMA_HOST` as a URL.

    `0.0.0.0` and `::` are addresses to listen on; they are replaced by loopback.
    """
    scheme, _, rest = host.strip().rpartition("://")
    try:
        split = urlsplit(
            f"//{rest if rest.count(':') < 2 or rest.startswith('[') else f'[{rest}]'}"
        )
        name, port = split.hostname or "", split.port or OLLAMA_PORT
    except ValueError:
        raise ConfigError(
            f"{host!r} is not an address; use HOST:PORT, for example 127.0.0.1:11434",
            where="OLLAMA_HOST",
        ) from None
    name = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)  # noqa: S104
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme or 'http'}://{shown}:{port}{split.path.rstrip('/')}"
