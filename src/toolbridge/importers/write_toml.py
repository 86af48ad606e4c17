"""Writes a `ConfigDraft` as TOML."""

import re
from collections.abc import Iterator, Mapping

from toolbridge.core.json import Json, dumps
from toolbridge.importers.draft import ConfigDraft

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_toml(draft: ConfigDraft, title: str) -> str:
    """Return the configuration file, with `title` as its first comment."""
    blocks = [f"# {title}"]
    if draft.settings:
        blocks.append("\n".join(_fields(draft.settings)))
    if draft.map:
        table: dict[str, Json] = {
            name: addresses[0] if len(addresses) == 1 else list(addresses)
            for name, addresses in draft.map.items()
        }
        blocks.append("\n".join(["[map]", *_fields(table)]))
    blocks += ["\n".join(["[[routes]]", *_fields(route)]) for route in draft.routes]
    for kind, tables in (("providers", draft.providers), ("models", draft.models)):
        for name, fields in tables.items():
            blocks.append("\n".join([f"[{kind}.{_key(name)}]", *_fields(fields)]))
    return "\n\n".join(blocks) + "\n"


def _fields(table: Mapping[str, Json]) -> Iterator[str]:
    return (f"{_key(name)} = {_value(value)}" for name, value in table.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(name)} = {_value(one)}" for name, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value) if isinstance(value, float) else str(value)


def _text(text: str) -> str:
    # TOML: a basic string has the escapes of JSON; DEL must be escaped too.
    return dumps(text).replace("\x7f", "\\u007f")
