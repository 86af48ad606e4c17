"""Writes the result of a probe into a configuration file, as the `[models]` table of the model.

Only the settings that the probe found are changed; comments and all other lines stay.
"""

import re
import tomllib
from collections.abc import Mapping

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import dumps
from toolbridge.probe.card import Card


def settings_of(card: Card) -> dict[str, str]:
    """Return the settings of the model that the card recommends."""
    found: dict[str, str] = {"tool_mode": card.best}
    if card.dialect and card.dialect != "mixed" and card.best == "prompt":
        found["dialect"] = card.dialect
    return found


def stanza(card: Card) -> str:
    """Return the table of the model as TOML."""
    lines = [f"{name} = {dumps(value)}" for name, value in settings_of(card).items()]
    return "\n".join([_header(card.model), *lines, ""])


def with_stanza(text: str, card: Card) -> str:
    """Return the configuration `text` with the settings of the card in it."""
    lines = text.splitlines()
    at = next((n for n, line in enumerate(lines) if _is_header(line, card.model)), None)
    if at is None:
        gap = "\n" if text.strip() else ""
        written = f"{text.rstrip()}\n{gap}{stanza(card)}".lstrip("\n")
    else:
        written = "\n".join([*lines[: at + 1], *_table(lines[at + 1 :], settings_of(card))]) + "\n"
    _check(written, card)
    return written


def _table(lines: list[str], settings: Mapping[str, str]) -> list[str]:
    """Return the lines after a table's header, with `settings` set in the table."""
    end = next((n for n, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    kept = [line for line in lines[:end] if _name_of(line) not in settings]
    return [*(f"{name} = {dumps(value)}" for name, value in settings.items()), *kept, *lines[end:]]


def _check(text: str, card: Card) -> None:
    """Raise unless `text` is TOML that has the settings of the card."""
    try:
        models = tomllib.loads(text).get("models", {})
    except tomllib.TOMLDecodeError:
        models = {}
    table = models.get(card.model, {}) if isinstance(models, dict) else {}
    if not isinstance(table, dict) or any(
        table.get(name) != value for name, value in settings_of(card).items()
    ):
        raise ConfigError(
            "the settings cannot be added to the file automatically; add these lines to it:\n"
            + stanza(card)
        )


def _header(model: str) -> str:
    return f"[models.{dumps(model)}]"


def _is_header(line: str, model: str) -> bool:
    head = re.fullmatch(r"\s*\[\s*models\s*\.\s*(.+?)\s*\]\s*(#.*)?", line)
    if head is None:
        return False
    name = head[1]
    return name in {dumps(model), f"'{model}'", model}


def _name_of(line: str) -> str:
    return line.partition("=")[0].strip().strip("\"'")
