"""Builds the catalog of a server: the schemas, tools and limits that its configuration offers."""

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec

from toolbridge.config import StreamConfig
from toolbridge.core.errors import ConfigError, ToolbridgeError
from toolbridge.core.json import JsonObject, loads
from toolbridge.runs.request import Catalog
from toolbridge.structured.limits import Limits
from toolbridge.structured.schemas import Schemas
from toolbridge.tools.fs import fs_read
from toolbridge.tools.functions import Function
from toolbridge.tools.registry import RegisteredTool, Registry
from toolbridge.tools.sqlite import sqlite_query
from toolbridge.tools.time import time_now


def catalog_of(config: StreamConfig) -> Catalog:
    """Return what `config` offers to every stream.

    Raise `ConfigError` that names the setting where a schema or a tool cannot be loaded.
    """
    catalog = Catalog(
        schemas=_schemas(config),
        tools=_tools(config),
        limits=Limits(
            frame=config.frame,
            depth=config.depth,
            arguments=config.arguments,
            result=config.result,
        ),
    )
    return with_demo(catalog) if config.demo else catalog


def with_demo(catalog: Catalog) -> Catalog:
    """Return `catalog` with the demo's tools and schemas; the configuration's own names win."""
    from toolbridge.demo import restaurant  # loaded only for the demo

    schemas = {k: v for k, v in restaurant.SCHEMAS.items() if k not in catalog.schemas}
    tools = [tool for tool in restaurant.TOOLS if tool.name not in catalog.tools]
    return msgspec.structs.replace(
        catalog, schemas=catalog.schemas.extended(schemas), tools=catalog.tools.extended(tools)
    )


def _schemas(config: StreamConfig) -> Schemas:
    schemas = Schemas()
    for name, given in config.schemas.items():
        try:
            schemas.register(name, _read_schema(given) if isinstance(given, str) else given)
        except (ToolbridgeError, OSError, ValueError) as error:
            raise ConfigError(str(error), where=f"stream.schemas.{name}") from None
    return schemas


def _read_schema(path: str) -> JsonObject:
    found = loads(Path(path).expanduser().read_bytes())
    if not isinstance(found, dict):
        raise ConfigError(f"{path} does not contain a JSON object")
    return found


def _tools(config: StreamConfig) -> Registry:
    registry = Registry([time_now()], most=config.result)
    if config.roots:
        registry.add(fs_read([Path(root).expanduser() for root in config.roots]))
    if config.databases:
        files = {name: Path(file).expanduser() for name, file in config.databases.items()}
        registry.add(sqlite_query(files))
    for source in config.tools:
        for tool in _marked(_load(source)):
            registry.add(tool)
    return registry


def _load(source: str) -> ModuleType:
    """Import the user's file (`*.py`) or module."""
    try:
        return _import(Path(source)) if source.endswith(".py") else importlib.import_module(source)
    except Exception as error:
        text = f"{source} cannot be imported: {type(error).__name__}: {error}"
        raise ConfigError(text, where="stream.tools") from error


def _import(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file.expanduser())
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _marked(module: ModuleType) -> Iterator[RegisteredTool | Function]:
    found = [v for v in vars(module).values() if isinstance(v, RegisteredTool | Function)]
    if not found:
        text = f"{module.__name__} has no function marked with @tool"
        raise ConfigError(text, where="stream.tools")
    yield from found
