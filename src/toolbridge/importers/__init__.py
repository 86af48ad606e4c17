"""Importers: configuration files of other gateways as a `toolbridge.toml`.

`read_source` parses a file, `import_source` carries what has an equivalent. Everything else is a
note with its place in the file. Nothing here opens a file or a connection.
"""

import msgspec

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject
from toolbridge.healing import heal
from toolbridge.importers.claude_code_router import import_claude_code_router
from toolbridge.importers.draft import ConfigDraft
from toolbridge.importers.litellm import import_litellm
from toolbridge.importers.portkey import import_portkey

IMPORTERS = {
    "litellm": import_litellm,
    "claude-code-router": import_claude_code_router,
    "portkey": import_portkey,
}
"""The name of a gateway → its importer."""
_MARKS = {
    "litellm": ("model_list", "litellm_settings", "router_settings"),
    "claude-code-router": ("Providers", "Router"),
    "portkey": ("strategy", "targets", "virtual_key", "override_params"),
}
"""The name of a gateway → fields that only its files have at the top."""


def import_source(
    source: JsonObject, gateway: str = "", name: str = "the file"
) -> tuple[str, ConfigDraft]:
    """Return the gateway that `source` belongs to, and its configuration.

    Raise `ConfigError` with the name of the file, and the place in it, for a file of another shape.
    """
    gateway = gateway or recognize(source, name)
    draft = ConfigDraft()
    try:
        IMPORTERS[gateway](source, draft)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    draft.notes = sorted(set(draft.notes), key=str)
    return gateway, draft


def recognize(source: JsonObject, name: str = "the file") -> str:
    """Return the gateway that a file belongs to; raise `ConfigError` for any other file."""
    for gateway, marks in _MARKS.items():
        if any(mark in source for mark in marks):
            return gateway
    known = ", ".join(IMPORTERS)
    raise ConfigError(f"{name} is not a file of {known}; choose one of them with --from")


def read_source(text: str, name: str) -> JsonObject:
    """Return the object in a file; JSON may have comments, YAML needs the extra `import`."""
    found = _read_yaml(text, name) if name.endswith((".yaml", ".yml")) else _read_json(text, name)
    if not isinstance(found, dict):
        raise ConfigError(f"{name} has no table at the top, as a configuration has")
    return found


def _read_json(text: str, name: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        read = heal(text, level=1, words=False)  # claude-code-router: JSON5, with comments
        if read.hopeless or read.cut or read.open:
            raise ConfigError(f"{name} is not JSON: {error}") from None
        return read.value


def _read_yaml(text: str, name: str) -> object:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError(
            f"{name} is YAML, and its reader is not installed. Run `pip install '.[import]'` in the "
            "clone of toolbridge, with the Python that runs it"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{name} is not valid YAML: {error}") from None
