"""Check the setup and show how to fix each problem; MODEL shows which model a name resolves to."""

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from toolbridge import __version__, codecs, providers
from toolbridge.cli import options, state
from toolbridge.cli.map_checks import misspelled_names
from toolbridge.cli.model_facts import known_capabilities
from toolbridge.cli.node.checking import problem_of
from toolbridge.cli.serve import listen
from toolbridge.cli.server_tool_checks import check_server_tools
from toolbridge.cli.store_checks import check_stores
from toolbridge.config import Config, key_variable, secret
from toolbridge.core.errors import ConfigError, ToolbridgeError
from toolbridge.environment import CALLER
from toolbridge.map_settings import addresses_of
from toolbridge.policy.routing_rules import RoutingRule, explain_rules
from toolbridge.routing.models import ModelRoutes
from toolbridge.routing.nodes import NODE
from toolbridge.routing.provider_urls import endpoint_url
from toolbridge.routing.providers import missing_key
from toolbridge.server.auth import Guard
from toolbridge.server.created_keys import created_keys
from toolbridge.server.tls import TlsContext
from toolbridge.upstream.connect_errors import GENERAL_ADVICE
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.trusted_certificates import trust_faults

_LISTS = {
    "anthropic": "/v1/models",
    "gemini": "/v1beta/models",
    "ollama": "/api/tags",
    "openai_chat": "/models",
    "openai_responses": "/models",
}
"""The model list of each API; requested only to check that the provider answers."""


@dataclass(frozen=True)
class Finding:
    """One result of a check, with the next step."""

    good: bool | None
    """True if all is well, False for a problem, None for a note."""
    what: str
    to_do: str = ""

    def __str__(self) -> str:
        mark = {True: "ok  ", False: "BAD ", None: "note"}[self.good]
        return f"{mark}  {self.what}" + (f"\n      → {self.to_do}" if self.to_do else "")


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument(
        "names", nargs="*", metavar="MODEL", help="a model name that a client sends"
    )


def run(args: argparse.Namespace) -> int:
    findings = list(examine(args))
    for finding in findings:
        print(finding)
    bad = sum(finding.good is False for finding in findings)
    print(f"\n{'no problems found' if not bad else f'{bad} to fix'}")
    return 1 if bad else 0


def examine(args: argparse.Namespace) -> Iterator[Finding]:
    yield Finding(True, f"toolbridge {__version__}, Python {sys.version.split()[0]}")
    try:
        config, source = options.load_with_source(args)
        Guard(config, secret(config.key), created_keys(config, os.environ))
    except ToolbridgeError as error:
        of_variable = re.match(r"[A-Z_]+: ", str(error))
        fix = "or write a new one: toolbridge init --force"
        yield Finding(
            False,
            f"configuration: {error}",
            "correct the variable" if of_variable else f"fix it, {fix}",
        )
        return
    yield Finding(True, f"configuration: {source.path or 'no configuration file'}")
    if source.refused:
        what, _, to_do = source.refused.partition("; ")
        yield Finding(None, what, to_do)
    yield from (Finding(False, *found) for found in misspelled_names(config))
    yield _port(config)
    if config.tls.cert:
        yield _tls(config)
    for fault in trust_faults(os.environ):
        yield Finding(False, fault, "correct the variable, or unset it")
    yield from (Finding(*found) for found in asyncio.run(check_stores(config)))
    tools = asyncio.run(check_server_tools(config.server_tools, os.environ))
    yield from (Finding(*found) for found in tools)
    yield from asyncio.run(_models(config, args.names))
    yield from _keys(config)
    yield _claude_code()


def _port(config: Config) -> Finding:
    running = state.find()
    if running is not None:
        return Finding(True, f"a gateway runs at {running.url}")
    try:
        listen(config).close()
    except ToolbridgeError as error:
        what, _, to_do = str(error).partition("; ")
        return Finding(None, what, to_do)
    return Finding(True, f"port {config.port} is free")


def _tls(config: Config) -> Finding:
    """Read the certificate and its key as `toolbridge serve` does."""
    tls = config.tls
    try:
        TlsContext(tls)
    except ConfigError as error:
        return Finding(False, str(error))
    if tls.port and (tls.host or config.host, tls.port) == (config.host, config.port):
        what = f"tls.port: {tls.port} is the port without TLS"
        return Finding(False, what, "choose another `tls.port`")
    return Finding(True, f"TLS: {tls.cert} and its key can be used")


async def _models(config: Config, names: list[str]) -> list[Finding]:
    async with Upstream() as upstream:
        try:
            model_routes = ModelRoutes(config, upstream)
            await model_routes.discover()
        except ToolbridgeError as error:
            return [Finding(False, f"providers: {error}")]
        found = _default(model_routes)
        own = ["default"] if model_routes.default else []
        own += [config.describe_images] if config.describe_images else []
        search = config.server_tools.web_search
        own += [search.model] if search.backend == "model" else []
        asked = dict.fromkeys([*own, *config.map, *names])
        asked = _with_chains(asked, config)
        used = {model_routes.address(_name(model_routes, name)).partition("/")[0] for name in asked}
        used |= {t.model.partition("/")[0] for rule in config.routes for t in rule.targets}
        there = [
            p
            for p in {**config.providers, **dict.fromkeys(used)}
            if p in model_routes.provider_configs
        ]
        # At once: those that do not answer must not add up.
        found += await asyncio.gather(
            *(
                _provider(upstream, model_routes, name, needed=name in used)
                for name in there
                if name != "demo"
            ),
            *(_reach(model_routes, name) for name in asked),
            *(_rule(model_routes, *numbered) for numbered in enumerate(config.routes, 1)),
        )
        found += [note for name in names if (note := _rules_of(config, name))]
        return found + [note for name in there if (note := _assumed(model_routes, name))]


def _with_chains(names: Iterable[str], config: Config) -> dict[str, None]:
    """Return `names` with the addresses of a chain in place of its name."""
    found: dict[str, None] = {}
    for name in names:
        chain = addresses_of(config.map.get(name, name))
        found |= dict.fromkeys(chain if len(chain) > 1 else (name,))
    return found


def _default(model_routes: ModelRoutes) -> list[Finding]:
    if not model_routes.default:
        to_do = 'set default = "provider/model" under [map]'
        return [Finding(False, f"there is no default model ({model_routes.found})", to_do)]
    found = [Finding(True, f"default model: {model_routes.default} ({model_routes.found})")]
    if model_routes.default.startswith("demo/"):
        to_do = (
            "for a real model, start Ollama and run `ollama pull qwen3:8b`, or configure a provider "
            "with `toolbridge init`"
        )
        found.append(Finding(None, "only the embedded demo model answers", to_do))
    return found


def _name(model_routes: ModelRoutes, name: str) -> str:
    """Return the name to resolve; a discovered default is not in the map."""
    return model_routes.default if name == "default" else name


async def _provider(
    upstream: Upstream, model_routes: ModelRoutes, name: str, *, needed: bool
) -> Finding:
    """Return whether a provider answers; if no name needs it, a failure is only a note."""
    provider_config = model_routes.provider_configs[name]
    key, bad = secret(provider_config.key), False if needed else None
    if provider_config.api == NODE:
        wrong, to_do = await problem_of(name, provider_config)
        return Finding(bad, wrong, to_do) if wrong else Finding(True, f"{name} has hosts")
    if provider_config.cloud:
        return await _cloud(upstream, model_routes, name, bad=bad)
    if variable := missing_key(name, provider_config, os.environ):
        what = "a key" if key_variable(provider_config.key) == variable else "a variable"
        return Finding(
            bad, f"{name} needs {what}, and ${variable} is not set", f"export {variable}"
        )
    try:
        incoming = await upstream.ask(
            "GET",
            endpoint_url(name, provider_config, _LISTS[provider_config.api]),
            provider=name,
            headers={
                **provider_config.headers,
                **(codecs.load(provider_config.api).authorize(key) if key else {}),
            },
            waits=(3.0, 5.0),
        )
        await incoming.release()
    except ToolbridgeError as error:
        why, _, to_do = str(error).partition(". ")
        if to_do in {"", GENERAL_ADVICE}:
            to_do = f"start it, or correct `url` under [providers.{name}]"
        return Finding(bad, why, to_do)
    if provider_config.key == CALLER:
        where = provider_config.url.partition("?")[0]
        return Finding(True, f"{name} answers at {where}; each caller's own login is forwarded")
    if incoming.status in {401, 403}:
        to_do = f"check {key_variable(provider_config.key) or 'its `key`'}"
        through = f" (through {incoming.proxy})" if incoming.proxy else ""
        return Finding(bad, f"{name} rejects the key ({incoming.status}){through}", to_do)
    return Finding(True, f"{name} answers at {provider_config.url.partition('?')[0]}")


async def _cloud(
    upstream: Upstream, model_routes: ModelRoutes, name: str, *, bad: bool | None
) -> Finding:
    """Return whether a cloud's provider has credentials and an address; no model is asked."""
    from toolbridge.upstream.clouds.endpoint import address_of

    provider_config = model_routes.provider_configs[name]
    try:
        host = await address_of(name, provider_config, upstream, os.environ)
    except ToolbridgeError as error:
        what, _, to_do = str(error).partition("; ")
        return Finding(bad, f"{name}: {what}", to_do)
    return Finding(True, f"{name} has credentials for {host} (not checked with a request)")


def _assumed(model_routes: ModelRoutes, name: str) -> Finding | None:
    """Return a note about the settings that were never checked with the provider itself."""
    assumed = model_routes.provider_configs[name].assumed
    if not assumed:
        return None
    return Finding(
        None,
        f"{name}: assumed from documentation, not seen on the wire: {', '.join(assumed)}",
        f"if a request fails because of one, set it under [providers.{name}]",
    )


async def _reach(model_routes: ModelRoutes, name: str) -> Finding:
    try:
        route = await model_routes.route(_name(model_routes, name))
    except ToolbridgeError as error:
        return Finding(False, f"{name}: {error.problem.text}")
    can = route.target.capabilities
    shown = f", capabilities: {known_capabilities(route.facts.known)}"
    window = f", {route.shown_window} tokens" if route.shown_window else ""
    counting = route.provider_config.counting
    shown += f", tokens counted by {counting}" if counting != "auto" else ""
    sources = dict.fromkeys(route.facts.sources.values())
    shown += f" (known from: {', '.join(sources)})" if sources else ""
    if can is not None and "tools" not in can and not route.is_node:
        return Finding(
            None,
            f"{name} → {route.address}{window}{shown}",
            "this model cannot call tools; agents need one that can",
        )
    return Finding(True, f"{name} → {route.address}{window}{shown}")


async def _rule(model_routes: ModelRoutes, number: int, rule: RoutingRule) -> Finding:
    """Return whether the models of a rule can be used."""
    shown = f"routes.{number} ({rule.describe()}) → {rule.describe_targets()}"
    for target in rule.targets:
        try:
            await model_routes.first_route(await model_routes.target_addresses((target.model,)))
        except ToolbridgeError as error:
            return Finding(False, shown, error.problem.text)
    return Finding(True, shown)


def _rules_of(config: Config, name: str) -> Finding | None:
    """Return the rules that may apply to a name before the name itself decides."""
    lines = explain_rules(config.routes, name)
    return (
        Finding(None, "\n      ".join([f"{name} is routed first by:", *lines])) if lines else None
    )


def _keys(config: Config) -> Iterator[Finding]:
    for name, provider_config in config.providers.items():
        built_in = providers.load(name).cloud if name in providers.names() else ""
        cloud = provider_config.cloud or built_in  # has other credentials, which `_cloud` checks
        key, own = provider_config.key, provider_config.api != NODE and not cloud
        if key and own and key != CALLER and not secret(key):
            to_do = f"export {key_variable(provider_config.key)}"
            yield Finding(False, f"providers.{name}: {provider_config.key} is not set", to_do)
    for name in sorted(set(providers.names()) - config.providers.keys()):
        if secret(key := providers.load(name).key):
            yield Finding(True, f"{key_variable(key)} is set: `{name}/MODEL` can be used")


def _claude_code() -> Finding:
    command = shutil.which("claude")
    if command is None:
        return Finding(
            None,
            "Claude Code is not installed",
            "install it with `npm install -g @anthropic-ai/claude-code`",
        )
    try:
        shown = subprocess.run(  # noqa: S603  found on the user's own PATH
            [command, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(
            None,
            f"Claude Code does not start: {error}",
            "install it again with `npm install -g @anthropic-ai/claude-code`",
        )
    return Finding(True, f"Claude Code {shown.stdout.strip()}")
