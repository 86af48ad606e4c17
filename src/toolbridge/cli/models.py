"""List the models that can be used; MODEL shows what is known about one, its rules, and the sources."""

import argparse
import asyncio
import sys

from toolbridge.cli import options
from toolbridge.cli.model_facts import LearnedFacts, describe, describe_learned, load_learned
from toolbridge.config import Config
from toolbridge.core.errors import ToolbridgeError
from toolbridge.policy.routing_rules import explain_rules
from toolbridge.routing.models import ListedModel, ModelRoutes
from toolbridge.upstream.http import Upstream

_AT_ONCE = 8
"""Models whose providers are asked at the same time."""


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument(
        "names", nargs="*", metavar="MODEL", help="a model name that a client sends"
    )


def run(args: argparse.Namespace) -> int:
    if args.names:
        return asyncio.run(_show(options.load(args), args.names))
    default, listed = asyncio.run(list_models(options.load(args)))
    wide = max((len(model.id) for model, _ in listed), default=4)
    for model, tools in listed:
        mark = "  (default)" if model.address == default else ""
        mark += f"  ({model.window} tokens{_source(model)})" if model.window else ""
        mark += f"  ({tools})" if tools else ""
        print(f"{model.id:<{wide}}  →  {model.address}{mark}")
    if not listed:
        print("there are no models; configure a provider with `toolbridge init`")
    return 0


def _source(model: ListedModel) -> str:
    """Return the source of the context window, unless it is the usual one."""
    source = model.facts.sources.get("window", "")
    return f", {source}" if source in {"table", "config"} else ""


async def _show(config: Config, names: list[str]) -> int:
    """Print the facts of each model; return 1 if a name is unknown."""
    status = 0
    async with Upstream() as upstream:
        model_routes = ModelRoutes(config, upstream)
        await model_routes.discover()
        learned = await load_learned(config)
        for name in names:
            try:
                route = await model_routes.route(name)
            except ToolbridgeError as error:
                print(f"{name}: {error.problem.text}", file=sys.stderr)
                status = 1
                continue
            print(f"{name}  →  {route.address}")
            for line in explain_rules(config.routes, name):
                print(f"  route     {line}")
            for what, value, source in (*describe(route), *describe_learned(route, learned)):
                print(f"  {what:<9} {value}" + (f"  ({source})" if source else ""))
    return status


async def list_models(config: Config) -> tuple[str, list[tuple[ListedModel, str]]]:
    """Return the address of the default model, and all models with their tool modes."""
    async with Upstream() as upstream:
        model_routes = ModelRoutes(config, upstream)
        await model_routes.discover()
        listed = await model_routes.listed()
        learned = await load_learned(config)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def described(model: ListedModel) -> tuple[ListedModel, str]:
            async with gate:
                return model, await _tool_mode(model, model_routes, learned)

        return model_routes.default, await asyncio.gather(*map(described, listed))


async def _tool_mode(model: ListedModel, model_routes: ModelRoutes, learned: LearnedFacts) -> str:
    try:
        route = await model_routes.route(model.address)
    except ToolbridgeError:  # such as a missing key, which `doctor` explains
        return ""
    if route.is_demo:
        return ""
    mode, why = learned.modes.explain(route)
    return f"tools: {mode}, {why}" if why else f"tools: {mode}"
