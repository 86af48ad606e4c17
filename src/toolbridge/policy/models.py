"""Resolve model names.

`resolve` and `resolve_chain` are the only functions that turn a client's model name into
`provider/model`; the gateway, the library, `/v1/stream`, `doctor` and `models` all use them. They make no requests: the lists of
providers, the keys that are set and the default model are passed to them as `ModelFacts`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

from toolbridge.core.errors import UnknownModel
from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.policy.name_facts import LONGEST, ModelFacts
from toolbridge.policy.unknown_models import (
    misspelt_provider,
    next_step,
    unknown_model,
    unknown_provider,
)

TIERS = ("opus", "sonnet", "haiku", "fable", "mythos")
CLAUDE = "claude-"
"""Prefix for the names of other models where a client lists only names that begin with it."""
_SEPARATORS = "/,@"
_LARGE = lazy_pattern(r"\[1m\]\s*$", re.IGNORECASE)
"""Claude Code's suffix for a context of a million tokens. Providers reject a name that has it."""
_GOOGLE = "models/"
"""Prefix of the names in Gemini's `GET /v1beta/models`, which its clients send back."""
# A date or "latest" at the end: `claude-sonnet-4-5-20250929`, `gpt-5-2025-08-07`.
_SUFFIX = lazy_pattern(r"(?:[-@](?:20\d{6}|20\d{2}-\d{2}-\d{2}|latest)|:latest)$")
# Bedrock: `us.anthropic.claude-opus-4-v1:0`.
_CLAUDE_NAME = lazy_pattern(rf"(?:[a-z-]+\.)*claude\b|(?:{'|'.join(TIERS)})$")
_BEDROCK = lazy_pattern(r"-v\d+:\d+$")
# An Ollama tag: `latest`, `7b`, `1.5b-instruct-q4_0`, `e4b`. No cloud provider uses such names.
_TAG = lazy_pattern(r"latest|[a-z]?\d+(?:\.\d+)?x?\d*[bm](?:-.*)?", re.IGNORECASE)
_VENDORS = {
    "anthropic": _CLAUDE_NAME,
    "openai": lazy_pattern(r"(?:gpt-(?!oss)|chatgpt|codex|o[134](?:-|$)|text-embedding-)"),
    "google": lazy_pattern(r"gemini"),
    "xai": lazy_pattern(r"grok-"),
    "deepseek": lazy_pattern(r"deepseek-(?:chat|reasoner)"),
    "mistral": lazy_pattern(r"(?:mi|ma|mini|co|dev|pix)stral-"),
    "moonshot": lazy_pattern(r"(?:kimi|moonshot)-"),
    "zai": lazy_pattern(r"glm-"),
}
"""Provider → the names of its own models."""
_AGENTS = ("anthropic", "openai", "google")
"""Vendors whose model names coding agents send by default; the default model serves them."""


def resolve(name: str, facts: ModelFacts) -> str:
    """Return `provider/model` for `name`; raise `UnknownModel` when no rule applies.

    The order: an exact entry of the map, a name that a provider lists, `provider/model`,
    `provider:model`, an alias or tier of the map, the default that the user set, a vendor's own
    name, an Ollama that does not answer. Of several addresses, the first that has its key.
    """
    values = _meaning(name, facts)
    for address in values.values():
        if facts.providers.get(address.partition("/")[0]) == "":
            return address
    return _usable(*next(iter(values.items())), facts)


def resolve_chain(name: str, facts: ModelFacts) -> tuple[str, ...]:
    """Return every address that `name` means, in the order in which they are tried.

    The key of a provider may be missing, unless there is only one address. The address of the default
    model means its chain: `toolbridge claude` and the banner set that address as the model's name.
    """
    values = _meaning(name, facts)
    if facts.fixed and list(values.values()) == [name]:
        chain = _addresses(facts.table.get("default", ""), facts)
        if next(iter(chain.values())) == name:
            values = chain
    return _chain_of(values, facts)


def resolve_targets(values: Sequence[str], facts: ModelFacts) -> tuple[str, ...]:
    """Return the addresses of a rule's targets: names of the map, or values of it."""
    found: dict[str, str] = {}
    for value in values:
        found |= _addresses(facts.table.get(value, value), facts)
    return _chain_of(found, facts)


def check_key(address: str, facts: ModelFacts) -> None:
    """Raise `UnknownModel` if the key of the provider is not set."""
    _usable(address, address, facts)


def is_known(name: str, facts: ModelFacts) -> bool:
    """Return whether the configuration or a list has `name` itself, so that no newer list is needed.

    A pattern of the map and the default also stand for names that a provider lists since a moment.
    """
    if not name.strip():
        return bool(facts.default)
    plain = _LARGE.sub("", name) or name
    if plain.startswith(_GOOGLE) and plain != _GOOGLE:
        return is_known(plain.removeprefix(_GOOGLE), facts)
    named = {entry: address for entry, address in facts.table.items() if "*" not in entry}
    found = name in facts.table or _listed(name, facts) or _addressed(plain, facts)
    return bool(found or _table_entry(plain, named))


def explain_name(name: str, facts: ModelFacts) -> str:
    """Return the rule by which `resolve` finds the model of `name`; empty where none applies."""
    if name in facts.table:
        return f"[map] has the name {name[:LONGEST]!r}"
    if not name.strip():
        return "the request names no model: the default model"
    plain = _LARGE.sub("", name) or name
    if _listed(name, facts):
        return "a provider lists the name"
    if _addressed(plain, facts):
        return "the name is an address, provider/model"
    if plain.startswith(_GOOGLE) and plain != _GOOGLE:
        return explain_name(plain.removeprefix(_GOOGLE), facts)
    if _table_entry(plain, facts.table):
        return "[map] has an alias, a tier or a pattern that the name matches"
    if facts.fixed and facts.default:
        return "no other rule applies: `default` of [map]"
    if _by_vendor(plain, facts):
        return "the name of a vendor's own model"
    return "an Ollama that is configured and has not answered yet" if facts.silent else ""


def split_address(name: str, providers: Collection[str]) -> tuple[str, str]:
    """Return provider and model of `provider/model`, `,`, `@` or `:`; the provider may be empty.

    Only a known provider counts: in `qwen3:8b`, `qwen3` is a model.
    """
    for separator in (*_SEPARATORS, ":"):
        provider, _, model = name.partition(separator)
        if provider in providers and model:
            return provider, model
    return "", name


def is_claude_name(name: str) -> bool:
    """Return whether `name` is a Claude model, `claude-…`, or a tier such as `sonnet`."""
    return _vendor(name) == "anthropic"


# ── the rules of `resolve` ──


def _meaning(name: str, facts: ModelFacts) -> dict[str, str]:
    """Return what `name` means, as written in the map or by the client, with its addresses."""
    if name in facts.table:
        return _addresses(facts.table[name], facts)
    if not name.strip():
        return _nameless(facts)
    found = _listed(name, facts)
    name = _LARGE.sub("", name) or name
    found = found or _addressed(name, facts)
    if found:
        return {name: found}
    if name.startswith(_GOOGLE) and name != _GOOGLE:
        return _meaning(name.removeprefix(_GOOGLE), facts)
    if misspelt_provider(name, facts, cutoff=0.9):
        raise unknown_model(name, _vendor(name), facts)
    if entry := _table_entry(name, facts.table):
        return _addresses(entry, facts)
    if facts.fixed and facts.default:
        return _addresses(facts.table.get("default", facts.default), facts)
    found = _by_vendor(name, facts)
    if not found and facts.silent:
        found = f"{facts.silent}/{name}"
    if not found:
        raise unknown_model(name, _vendor(name), facts)
    return _addresses(found, facts)


def _chain_of(values: dict[str, str], facts: ModelFacts) -> tuple[str, ...]:
    if len(values) == 1:
        return (_usable(*next(iter(values.items())), facts),)
    return tuple(dict.fromkeys(values.values()))


def _nameless(facts: ModelFacts) -> dict[str, str]:
    found = facts.table.get("default") or facts.default or facts.demo
    if not found:
        raise UnknownModel(
            f"the request names no model, and there is no default. {next_step(facts)}",
            where="model",
        )
    return _addresses(found, facts)


def _addresses(entry: str | tuple[str, ...], facts: ModelFacts) -> dict[str, str]:
    """Return the values of an entry of the map, or a default, with the address of each."""
    values = (entry,) if isinstance(entry, str) else entry
    return {value: _address(value, facts) for value in values}


def _address(value: str, facts: ModelFacts) -> str:
    found = _listed(value, facts) or _addressed(value, facts)
    if found:
        return found
    # A wrong address stays as it is, and is an error for each request that would use it. It must
    # not become a model of another provider, which the configuration does not name.
    return value if _names_provider(value, facts) else f"{facts.owner}/{value}"


def _names_provider(value: str, facts: ModelFacts) -> bool:
    """Return whether a value of the configuration is written as an address.

    Ollama has models of other registries by host name: `hf.co/org/model`.
    """
    word, *model = re.split(r"[/,]", value, maxsplit=1)
    return bool(model and model[0]) and not ("." in word and facts.owner)


def _usable(name: str, address: str, facts: ModelFacts) -> str:
    """Return `address`; raise `UnknownModel` if the key of its provider is not set."""
    provider = address.partition("/")[0]
    if provider not in facts.providers:
        raise unknown_provider(address, facts)
    if variable := facts.providers.get(provider):
        lacks = facts.cloud_lacks.get(provider) or (
            f"which needs a key: {variable} is not set. Set it where toolbridge runs, or name another "
            "model"
        )
        raise UnknownModel(
            f"{name[:LONGEST]!r} is a model of {provider}, {lacks}. {next_step(facts)}",
            where="model",
        )
    return address


def _listed(name: str, facts: ModelFacts) -> str:
    listed = facts.listed
    own = name.removeprefix(CLAUDE)
    for variant in (name, f"{name}:latest", own, f"{own}:latest"):
        if variant in listed:
            return listed[variant]
    plain: dict[str, str] = {}
    for entry, address in listed.items():
        plain.setdefault(_plain(entry), address)
    return plain.get(_plain(name)) or plain.get(_plain(own), "")


def _addressed(name: str, facts: ModelFacts) -> str:
    """Return the address if `name` is one, such as `openai/gpt-5`; else an empty string."""
    for separator in _SEPARATORS:
        provider, _, model = name.partition(separator)
        if provider in facts.providers and model:
            return f"{provider}/{model}"
    provider, _, model = name.partition(":")
    if provider in facts.providers and model and not _is_local_tag(provider, model, facts):
        return f"{provider}/{model}"
    return ""


def _is_local_tag(provider: str, tag: str, facts: ModelFacts) -> bool:
    """Return whether `provider:tag` is an Ollama model with its tag, as in `mistral:7b`.

    A prompt for such a local model must not be sent to the cloud provider of the same name.
    """
    if any(entry.partition(":")[0] == provider for entry in facts.listed):
        return True
    return provider not in facts.configured and _TAG.fullmatch(tag) is not None


def _table_entry(name: str, table: Mapping[str, str | tuple[str, ...]]) -> str | tuple[str, ...]:
    """Return the entry of the map for an alias, a tier, or a pattern such as `gpt-*`."""
    aliases = {_plain(entry): address for entry, address in table.items() if entry != "default"}
    plain = _plain(name)
    found = aliases.get(plain) or aliases.get(plain.removeprefix(CLAUDE), "")
    if found:
        return found
    if is_claude_name(name):
        found = next((table[tier] for tier in TIERS if tier in plain and tier in table), "")
    if found:
        return found
    # Of several patterns, the longest is the most specific one.
    patterns = sorted((entry for entry in table if "*" in entry), key=len, reverse=True)
    return next((table[entry] for entry in patterns if fnmatchcase(plain, entry.lower())), "")


def _plain(name: str) -> str:
    """Return `name` in lower case, without date, `-latest` and `[1m]`."""
    return _SUFFIX.sub("", _LARGE.sub("", name.strip().lower()))


def _by_vendor(name: str, facts: ModelFacts) -> str:
    """Return the address for the name of a vendor's own model, where the user set no default.

    A provider whose key is set serves its own names. Claude names are an exception while an Ollama
    was found: Claude Code always sends them, and a key that happens to be in the environment must
    not send the prompts of a local user to a cloud provider.
    """
    vendor = _vendor(name)
    if not vendor:
        return ""
    local_first = vendor == "anthropic" and facts.default and vendor not in facts.configured
    if facts.providers.get(vendor) == "" and not local_first:
        return f"{vendor}/{name}"
    if vendor not in _AGENTS or "embed" in name:  # the default is a chat model
        return ""
    return facts.default or (facts.demo if vendor == "anthropic" else "")


def _vendor(name: str) -> str:
    """Return the provider whose own models have names like `name`; an empty string for none."""
    lowered = _BEDROCK.sub("", name.strip().lower())
    if ":" in lowered or "/" in lowered:  # a tag or a namespace: a local model
        return ""
    return next((vendor for vendor, own in _VENDORS.items() if own.match(lowered)), "")
