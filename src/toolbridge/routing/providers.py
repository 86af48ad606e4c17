"""Every place that speaks an API: configured, or known anyway; and whether what is said fits."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from urllib.parse import urlsplit

import msgspec

from toolbridge import codecs, dialects, providers
from toolbridge.config import Config, ProviderConfig, key_variable, secret
from toolbridge.core.codec import Target
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Request, Text, Turn
from toolbridge.routing.nodes import NODE, check_node_quirks, read_node_settings
from toolbridge.upstream.hosts import hostname, is_loopback

DEMO = "demo"
OLLAMA = "ollama"
OLLAMA_PORT = 11434
_URLS = {"groq": "GROQ_BASE_URL", "vllm": "VLLM_BASE_URL"}
"""Where to find some places. Those that clients read too, like OPENAI_BASE_URL, may mean us."""


def find_providers(config: Config, env: Mapping[str, str]) -> dict[str, ProviderConfig]:
    """Return every place: the configured ones first, then those that are known anyway."""
    found: dict[str, ProviderConfig] = {}
    for name, provider_config in config.providers.items():
        known = providers.load(name) if name in providers.names() else None
        found[name] = _merge(name, provider_config, known)
    for name in providers.names():
        found.setdefault(name, providers.load(name))
    if (host := env.get("OLLAMA_HOST")) and OLLAMA not in config.providers:
        found[OLLAMA] = msgspec.structs.replace(found[OLLAMA], url=_ollama_url(host))
    for name, variable in _URLS.items():
        if (url := env.get(variable)) and name not in config.providers:
            found[name] = msgspec.structs.replace(found[name], url=url)
    _check_map(config, found)
    _check_dialects(config)
    return found


def missing_key(name: str, provider_config: ProviderConfig, env: Mapping[str, str]) -> str:
    """Return the variable of the key that a provider needs and does not have; nothing if it has.

    Servers that people run themselves need a key only where one is configured.
    """
    variable = key_variable(provider_config.key)
    if not variable or provider_config.api == NODE or secret(provider_config.key, env):
        return ""
    known = providers.load(name) if name in providers.names() else ProviderConfig()
    elsewhere = (
        bool(known.url) and provider_config.url != known.url and provider_config.key == known.key
    )
    return "" if elsewhere or is_loopback(hostname(provider_config.url)) else variable


def _check_map(config: Config, provider_configs: Mapping[str, ProviderConfig]) -> None:
    """Raise for an address whose provider is all but the name of one.

    Any other word before a slash may be part of a model's own name.
    """
    for name, address in config.map.items():
        provider, slash, _ = address.partition("/")
        near = get_close_matches(provider, provider_configs, 1, cutoff=0.9)
        if slash and near and provider not in provider_configs:
            raise ConfigError(
                f"no provider is called {provider!r}; did you mean {near[0]!r}?",
                where=f"map.{name}",
            )


def _check_dialects(config: Config) -> None:
    known = ["auto", "off", *dialects.names()]
    for name, settings in config.models.items():
        if settings.dialect not in known:
            near = get_close_matches(settings.dialect, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            text = f"no dialect is called {settings.dialect!r}; {hint}"
            raise ConfigError(text, where=f"models.{name}.dialect")


def _check_quirks(provider_config: ProviderConfig) -> None:
    """Raise for a quirk that the place's API does not know, by saying something in it."""
    if provider_config.api == NODE:
        check_node_quirks(provider_config)
    elif provider_config.quirks and provider_config.api != DEMO:
        asked = Request(model="m", turns=(Turn("user", (Text("hi"),)),))
        codecs.load(provider_config.api).encode_request(
            asked, Target(model="m", quirks=provider_config.quirks)
        )


def _merge(
    name: str, provider_config: ProviderConfig, known: ProviderConfig | None
) -> ProviderConfig:
    blank = ProviderConfig()
    if known is not None:
        given = {
            field: value
            for field in ProviderConfig.__struct_fields__
            if (value := getattr(provider_config, field)) != getattr(blank, field)
        }
        if provider_config.url not in {"", known.url}:
            # The vendor's name, but not the vendor's server.
            given.setdefault("passthrough", None)
            given.setdefault("files", None)
        if provider_config.api not in {"", known.api}:
            given.setdefault("quirks", {})  # they are facts about the API that is not spoken here
        provider_config = msgspec.structs.replace(known, **given)
    where = f"providers.{name}"
    if not provider_config.api:
        apis = ", ".join([*codecs.names(), NODE])
        raise ConfigError(f"needs `api`, one of {apis}", where=where)
    if provider_config.node and provider_config.api != NODE:
        raise ConfigError('takes a `node` table only with api = "node"', where=where)
    if provider_config.api == NODE:
        read_node_settings(name, provider_config)
    elif provider_config.api != DEMO:
        codecs.load(provider_config.api)
        if not _is_url(provider_config.url):
            raise ConfigError('needs `url`, for example url = "http://127.0.0.1:8080"', where=where)
    try:
        _check_quirks(provider_config)
    except ConfigError as error:
        raise ConfigError(str(error), where=where) from None
    return provider_config


def is_first_party(provider_config: ProviderConfig) -> bool:
    """Whether `provider_config` is a vendor's own server: one whose shipped file asks for passthrough."""
    return _host(provider_config.url) in _first_party_hosts()


def quirks_of_host(provider_config: ProviderConfig) -> JsonObject:
    """Return the quirks that follow from the provider's URL alone.

    OpenAI, Responses API: `prompt_cache_retention` is a field of OpenAI's own servers.
    """
    host = _host(provider_config.url)
    is_openai = host == "openai.com" or host.endswith(".openai.com")
    return {"openai": True} if is_openai and provider_config.api == "openai_responses" else {}


def passes_through(provider_config: ProviderConfig) -> bool:
    """Whether a client of the same API gets the provider's own bytes."""
    return (
        is_first_party(provider_config)
        if provider_config.passthrough is None
        else provider_config.passthrough
    )


def whose_files(name: str, provider_config: ProviderConfig) -> str | None:
    """Return whose file ids a provider takes; None where unknown: a server of the user's own."""
    if provider_config.files is not None:
        return provider_config.files
    hosts, names = _shipped_files()
    return hosts.get(_host(provider_config.url), names.get(name))


@cache
def _shipped_files() -> tuple[dict[str, str], dict[str, str]]:
    """Return whose file ids known servers take, by their hosts, and known names that keep none."""
    known = {name: providers.load(name) for name in providers.names()}
    hosts: dict[str, str] = {_host(one.url): one.files or "" for one in known.values() if one.url}
    hosts.pop("127.0.0.1", None)
    return hosts, {name: "" for name, one in known.items() if not one.files}


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


def _is_url(text: str) -> bool:
    try:
        split = urlsplit(text)
        return split.scheme in {"http", "https"} and bool(split.hostname) and (split.port or 1) > 0
    except ValueError:
        return False


def _ollama_url(host: str) -> str:
    """Return Ollama's own setting as a URL: `0.0.0.0` listens everywhere, but is reached here."""
    scheme, _, rest = host.strip().rpartition("://")
    try:
        split = urlsplit(
            f"//{rest if rest.count(':') < 2 or rest.startswith('[') else f'[{rest}]'}"
        )
        name, port = split.hostname or "", split.port or OLLAMA_PORT
    except ValueError:
        raise ConfigError(f"{host!r} is no address", where="OLLAMA_HOST") from None
    name = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)  # noqa: S104
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme or 'http'}://{shown}:{port}{split.path.rstrip('/')}"
