"""The configuration files in working directories that the user has allowed.

A directory from elsewhere may contain a `toolbridge.toml` with foreign providers, addresses and
payments. Such a file is used only if it belongs to the user and has the content that the user
allowed with `toolbridge allow`; direnv does the same with `.envrc`.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from toolbridge.core.errors import ConfigError
from toolbridge.state_dir import state_dir

STORE = "allowed.json"
_EVERYONE_WRITES = stat.S_IWOTH


class FileNotAllowed(ConfigError):
    """Raised for a file that is not allowed, with the reason and the next step."""


def read_allowed(path: Path, env: Mapping[str, str]) -> bytes:
    """Return the content of `path`; raise `FileNotAllowed` unless the user allowed that content."""
    file = path.resolve()
    content = _read_own(file)
    allowed = _load(env).get(str(file))
    if allowed == _digest(content):
        return content
    why = "you have not allowed it" if allowed is None else "it has changed since you allowed it"
    raise FileNotAllowed(f"{file} is not used: {why}; read it, then run `toolbridge allow {file}`")


def is_allowed(path: Path, content: bytes, env: Mapping[str, str]) -> bool:
    """Whether the user allowed this content of `path`."""
    return _load(env).get(str(path.resolve())) == _digest(content)


def allow(path: Path, env: Mapping[str, str]) -> Path:
    """Record the content of `path` as allowed; return the resolved path."""
    file = path.resolve()
    _save({**_load(env), str(file): _digest(_read_own(file))}, env)
    return file


def forget(path: Path, env: Mapping[str, str]) -> bool:
    """Remove `path` from the allowed files; return whether it was allowed."""
    allowed = _load(env)
    known = allowed.pop(str(path.resolve()), None) is not None
    if known:
        _save(allowed, env)
    return known


def _read_own(file: Path) -> bytes:
    """Return the content of a regular file that belongs to the user.

    Owner and content are read from the same open file, because the path may change in between.
    """
    try:
        # Opening a named pipe would block until there is a writer.
        with open(file, "rb", opener=_open_at_once) as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise FileNotAllowed(
                    f"{file} is not used: it is not a regular file; give one with --config"
                )
            if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
                raise FileNotAllowed(
                    f"{file} is not used: it belongs to another user (uid {found.st_uid}); copy it, "
                    "or give it with --config"
                )
            if os.name == "posix" and found.st_mode & _EVERYONE_WRITES:
                raise FileNotAllowed(
                    f"{file} is not used: every user can write to it; run `chmod o-w {file}`, then "
                    f"`toolbridge allow {file}`"
                )
            return opened.read()
    except OSError as error:
        raise FileNotAllowed(f"{file} cannot be read: {error.strerror or error}") from None


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def list_file(env: Mapping[str, str]) -> Path | None:
    """Return the file with the list of allowed files; None without a state directory."""
    state = state_dir(env)
    return None if state is None else state / STORE


def _load(env: Mapping[str, str]) -> dict[str, str]:
    """Return path → digest; empty if the list is missing, broken or belongs to another user."""
    file = list_file(env)
    if file is None or not file.exists():
        return {}
    try:
        found = json.loads(_read_own(file))
    except (FileNotAllowed, ValueError):
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {path: digest for path, digest in pairs if isinstance(digest, str)}


def _save(allowed: Mapping[str, str], env: Mapping[str, str]) -> None:
    file = list_file(env)
    if file is None:
        raise ConfigError("there is no state directory; set HOME or XDG_STATE_HOME")
    made = file.with_name(f"{STORE}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            json.dump(allowed, opened, indent=1, sort_keys=True)
        made.replace(file)
    except OSError as error:
        with suppress(OSError):
            made.unlink(missing_ok=True)
        raise ConfigError(
            f"cannot write {file} ({error.strerror}); make it writable, or set XDG_STATE_HOME"
        ) from None
