"""List the models that can be used: the names for clients, and the provider and model of each."""

import argparse
import asyncio

from toolbridge.cli import options
from toolbridge.config import Config
from toolbridge.routing.models import ListedModel, ModelRoutes
from toolbridge.upstream.http import Upstream


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)


def run(args: argparse.Namespace) -> int:
    default, listed = asyncio.run(list_models(options.load(args)))
    wide = max((len(model.id) for model in listed), default=4)
    for model in listed:
        mark = "  (default)" if model.address == default else ""
        mark += f"  ({model.window} tokens)" if model.window else ""
        print(f"{model.id:<{wide}}  →  {model.address}{mark}")
    if not listed:
        print("there are no models; configure a provider with `toolbridge init`")
    return 0


async def list_models(config: Config) -> tuple[str, list[ListedModel]]:
    """Return the address of the default model, and all models."""
    async with Upstream() as upstream:
        model_routes = ModelRoutes(config, upstream)
        await model_routes.discover()
        return model_routes.default, await model_routes.listed()
