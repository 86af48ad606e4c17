"""Read environment variables from a file with `NAME=value` lines (`--env-file`)."""

import re
from collections.abc import Mapping
from pathlib import Path

from toolbridge.core.errors import ConfigError

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)")
_PLACES = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
"""Variables that decide where the ledger and the user's own configuration are."""
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\\": "\\"}


def read_env_file(path: Path, secrets: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the variables in `path`.

    Raise `ConfigError` if it contains one of `secrets` and other users can read it.
    """
    try:
        text = path.read_text("utf-8-sig")
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"the env file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the env file {path} cannot be read: it is not a text file") from None
    found = parse(text, str(path))
    if moved := [name for name in _PLACES if name in found]:
        raise ConfigError(
            f"the env file {path} must not set {moved[0]}: the ledger of payments and the caps of "
            "`toolbridge node limit` are there"
        )
    if mode & 0o077 and any(found.get(name) for name in secrets):
        raise ConfigError(
            f"other users can read the env file {path}, which contains a private key; "
            f"run `chmod 600 {path}`"
        )
    return found


def parse(text: str, source: str) -> dict[str, str]:
    """Return the variables in `text`; errors name the line number, never the line's content."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.strip().startswith("#"):
            continue
        entry = _LINE.fullmatch(line.strip())
        if entry is None:
            raise ConfigError(f"{source}, line {number}: expected NAME=value")
        found[entry[1]] = _value(entry[2], f"{source}, line {number}")
    return found


def _value(text: str, where: str) -> str:
    quote = text[:1]
    if quote not in {'"', "'"} or not text:
        return re.split(r"\s#", text, maxsplit=1)[0].strip()
    pattern = r"'([^']*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"'
    quoted = re.fullmatch(rf"{pattern}\s*(?:#.*)?", text)
    if quoted is None:
        raise ConfigError(f"{where}: a quote is not closed")
    if quote == "'":
        return quoted[1]
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), quoted[1])


def with_env_file(
    env: Mapping[str, str], path: Path | None, secrets: tuple[str, ...]
) -> dict[str, str]:
    """Return `env` with the variables of the file that it does not set itself."""
    return {**({} if path is None else read_env_file(path, secrets)), **env}
