"""List the models that can be used; MODEL shows what is known about one, and where that is from."""

import argparse
import asyncio
import sys

from toolbridge.cli import options
from toolbridge.cli.model_facts import describe
from toolbridge.config import Config
from toolbridge.core.errors import ToolbridgeError
from toolbridge.routing.models import ListedModel, ModelRoutes
from toolbridge.upstream.http import Upstream


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument(
        "names", nargs="*", metavar="MODEL", help="a model name that a client sends"
    )


def run(args: argparse.Namespace) -> int:
    if args.names:
        return asyncio.run(_show(options.load(args), args.names))
    default, listed = asyncio.run(list_models(options.load(args)))
    wide = max((len(model.id) for model in listed), default=4)
    for model in listed:
        mark = "  (default)" if model.address == default else ""
        mark += f"  ({model.window} tokens{_source(model)})" if model.window else ""
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
        for name in names:
            try:
                route = await model_routes.route(name)
            except ToolbridgeError as error:
                print(f"{name}: {error.problem.text}", file=sys.stderr)
                status = 1
                continue
            print(f"{name}  →  {route.address}")
            for what, value, source in describe(route):
                print(f"  {what:<9} {value}" + (f"  ({source})" if source else ""))
    return status


async def list_models(config: Config) -> tuple[str, list[ListedModel]]:
    """Return the address of the default model, and all models."""
    async with Upstream() as upstream:
        model_routes = ModelRoutes(config, upstream)
        await model_routes.discover()
        return model_routes.default, await model_routes.listed()
