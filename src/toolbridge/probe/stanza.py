"""Writes the result of a probe into a configuration file, as settings of the model under `[models]`.

Only the settings that the probe found are changed; comments and all other lines stay. A model may
have a table of its own, an inline table or dotted keys. Each edit is checked: the file must be what
it was before, with these settings and no other change.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import dumps
from toolbridge.probe.card import Card

_STRING = r""""(?:[^"\\]|\\.)*"|'[^']*'"""
_KEY = rf"{_STRING}|[A-Za-z0-9_-]+"
_ENTRY = re.compile(rf"\s*(models\s*\.\s*)?({_KEY})\s*([.=])\s*(?=\S)")
_SETTING = re.compile(rf"(\s*({_KEY})\s*=\s*)(?:{_STRING})(\s*(?:#.*)?)")
_TOKEN = re.compile(rf"{_STRING}|[^\"'{{}}\[\],]+|.", re.DOTALL)
_BOM = "\ufeff"


def settings_of(card: Card) -> dict[str, str]:
    """Return the settings of the model that the card recommends; none without a best mode."""
    found: dict[str, str] = {} if card.best is None else {"tool_mode": card.best}
    if card.dialect and card.dialect != "mixed" and card.best == "prompt":
        found["dialect"] = card.dialect
    return found


def stanza(card: Card) -> str:
    """Return the table of the model as TOML."""
    return "\n".join([f"[models.{dumps(card.model)}]", *_written(settings_of(card)), ""])


def with_stanza(text: str, card: Card) -> str:
    """Return the configuration `text` with the settings of the card in it."""
    mark = _BOM if text.startswith(_BOM) else ""
    newline = "\r\n" if 0 < text.count("\n") == text.count("\r\n") else "\n"
    before = text.removeprefix(_BOM).replace(newline, "\n")
    expected = _parsed(before)
    if expected is None:
        raise ConfigError("the file is not valid TOML; `toolbridge doctor` shows the line")
    wrong = _instruction(expected, card)
    models = expected.setdefault("models", {})
    table = models.setdefault(card.model, {}) if isinstance(models, dict) else None
    if isinstance(table, dict):
        table |= settings_of(card)
        for written in _edits(before, card):
            if _parsed(written) == expected:
                return mark + written.replace("\n", newline)
    raise ConfigError(f"the settings cannot be added to the file automatically; {wrong}")


def _edits(text: str, card: Card) -> Iterator[str]:
    """Yield the ways to add the settings, one of which fits the form of the file."""
    lines, model, settings = text.split("\n"), card.model, settings_of(card)
    section: object = None
    for number, line in enumerate(lines):
        if line.lstrip().startswith("["):
            section = _parsed(line)
            if section == {"models": {model: {}}}:
                yield "\n".join([*lines[: number + 1], *_in_table(lines[number + 1 :], settings)])
            continue
        found = _ENTRY.match(line)
        if found is None or _parsed(f"{found[2]} = 0") != {model: 0}:
            continue
        if bool(found[1]) == (section == {"models": {}}):
            continue  # `models.` is needed outside of the table, and wrong inside
        if found[3] == "=":
            changed = line[: found.end()] + _in_inline(line[found.end() :], settings)
            yield "\n".join([*lines[:number], changed, *lines[number + 1 :]])
        else:
            prefix = line[: found.end()]
            yield "\n".join([*lines[:number], *_dotted(lines[number:], prefix, settings)])
    gap = "\n" if text.strip() else ""
    yield f"{text.rstrip()}\n{gap}{stanza(card)}".lstrip("\n")


def _in_table(lines: list[str], settings: Mapping[str, str]) -> list[str]:
    """Return the lines after a table's header, with `settings` set in the table."""
    end = next((n for n, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    missing = dict(settings)
    kept = [_replaced(line, settings, missing) for line in lines[:end]]
    return [*_written(missing), *kept, *lines[end:]]


def _dotted(lines: list[str], prefix: str, settings: Mapping[str, str]) -> list[str]:
    """Return the lines from the first dotted key of a model, with `settings` as further ones."""
    missing = dict(settings)
    changed = [
        prefix + _replaced(line.removeprefix(prefix), settings, missing)
        if line.startswith(prefix)
        else line
        for line in lines
    ]
    return [*(prefix + line for line in _written(missing)), *changed]


def _in_inline(text: str, settings: Mapping[str, str]) -> str:
    """Return `text`, which begins with an inline table, with `settings` set in the table."""
    entries, depth, at = [""], 0, 0
    for piece in _TOKEN.findall(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(piece, 0)
        if depth == 0:
            break
        if piece == "," and depth == 1:
            entries.append("")
        elif at:
            entries[-1] += piece
        at += len(piece)
    missing = dict(settings)
    entries = [_replaced(entry, settings, missing) for entry in entries]
    last = entries.pop()
    space = last[len(last.rstrip()) :]
    entries += [last.rstrip()] if last.strip() else []
    added = [f" {line}" for line in _written(missing)]
    return f"{{{','.join([*entries, *added])}{space or ' ' * (not last)}{text[at:]}"


def _replaced(line: str, settings: Mapping[str, str], missing: dict[str, str]) -> str:
    """Return `line` with the value of its setting replaced, and remove that from `missing`."""
    found = _SETTING.fullmatch(line)
    name = found[2].strip("\"'") if found else ""
    if found is None or name not in settings:
        return line
    missing.pop(name, None)
    return f"{found[1]}{dumps(settings[name])}{found[3]}"


def _written(settings: Mapping[str, str]) -> list[str]:
    return [f"{name} = {dumps(value)}" for name, value in settings.items()]


def _parsed(text: str) -> dict[str, object] | None:
    """Return `text` as TOML; None if it is not valid."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _instruction(before: Mapping[str, object], card: Card) -> str:
    """Return what the user has to change, which depends on what the file has."""
    models, settings = before.get("models"), ", ".join(_written(settings_of(card)))
    if isinstance(models, dict) and card.model in models:
        return f"set these in it for the model {dumps(card.model)}: {settings}"
    return f"add this to its `models`: {dumps(card.model)} = {{ {settings} }}"
