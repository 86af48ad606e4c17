"""Finds, reads and removes the folders of past runs.

Only files that toolbridge writes are removed: known names in folders named like runs. A folder with
any other file keeps that file.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from toolbridge.core.json import Json, JsonObject, loads, maybe_object
from toolbridge.state_dir import state_dir

NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
FRAMES = "frames.ndjson"
FILES = ("prompt.json", "result.json", "tool_logs.json", "metrics.json")
_OURS = frozenset({FRAMES, *FILES, *(f".{name}.tmp" for name in FILES)})
_RUN = re.compile(r"run_[0-9a-f]{16}")
_UNDER_WAY = 3600.0
"""Seconds for which a folder without metrics.json may belong to a run of another process."""


class Retention(msgspec.Struct, frozen=True):
    """How many runs and bytes are kept."""

    runs: int = 200
    bytes: int = 512 * 1024 * 1024
    """Bytes of all runs together."""
    run_bytes: int = 32 * 1024 * 1024
    """Bytes of one run."""
    seconds: float = 30 * 24 * 3600.0


class Summary(msgspec.Struct, frozen=True):
    """A past run, as `toolbridge runs` lists it."""

    id: str
    started: float
    """Seconds since the epoch."""
    bytes: int
    finished: bool
    metrics: JsonObject


class RunRecord(msgspec.Struct, frozen=True):
    """The artifacts of a past run; None for a file that was not written."""

    id: str
    frames: list[JsonObject]
    prompt: Json
    result: Json
    tool_logs: Json
    metrics: Json


class _Folder(msgspec.Struct, frozen=True):
    path: Path
    at: float
    bytes: int
    finished: bool


def runs_root(env: Mapping[str, str]) -> Path | None:
    """Return the folder of all runs; None without XDG_STATE_HOME and HOME."""
    state = state_dir(env)
    return None if state is None else state / "runs"


def run_folder(root: Path, run: str) -> Path:
    """Return the folder of `run`; raise `LookupError` if `run` is not a run id."""
    if not _RUN.fullmatch(run):
        raise LookupError(f"{run[:64]!r} is not a run id; ids look like run_0123456789abcdef")
    return root / run


def list_runs(root: Path) -> list[Summary]:
    """Return the runs that have artifacts, newest first."""
    found = []
    for folder in _folders(root):
        metrics = _object(folder.path / "metrics.json")
        started = metrics.get("started")
        at = float(started) if isinstance(started, float | int) else folder.at
        found.append(Summary(folder.path.name, at, folder.bytes, folder.finished, metrics))
    return sorted(found, key=lambda summary: (-summary.started, summary.id))


def load_run(root: Path, run: str) -> RunRecord:
    """Return the artifacts of `run`; raise `LookupError` if it has none."""
    folder = run_folder(root, run)
    if folder.is_symlink() or not folder.is_dir():
        raise LookupError(f"there is no run {run} in {root}; run `toolbridge runs` for a list")
    prompt, result, tool_logs, metrics = (_value(folder / name) for name in FILES)
    return RunRecord(run, _frames(folder / FRAMES), prompt, result, tool_logs, metrics)


def prune(root: Path, retention: Retention, *, busy: frozenset[str], now: float) -> list[str]:
    """Remove the oldest runs until the rest fits `retention`; return the removed ids."""
    removed = []
    kept = total = 0
    for folder in sorted(_folders(root), key=lambda folder: -folder.at):
        age = now - folder.at
        kept += 1
        total += folder.bytes
        if kept <= retention.runs and total <= retention.bytes and age <= retention.seconds:
            continue
        if folder.path.name in busy or (not folder.finished and age < _UNDER_WAY):
            continue
        kept -= 1
        total -= folder.bytes
        _remove(folder.path)
        removed.append(folder.path.name)
    return removed


def _folders(root: Path) -> list[_Folder]:
    try:
        entries = list(os.scandir(root))
    except OSError:
        return []
    return [
        folder
        for entry in entries
        if _RUN.fullmatch(entry.name)
        and entry.is_dir(follow_symlinks=False)
        and (folder := _measured(Path(entry.path))) is not None
    ]


def _measured(path: Path) -> _Folder | None:
    """Return a folder with its age and size; None if it is empty or was removed meanwhile."""
    found: dict[str, os.stat_result] = {}
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # a temporary file that was renamed meanwhile
                    found[entry.name] = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    ours = {name: stat for name, stat in found.items() if name in _OURS}
    if not ours:
        return None
    at = max(stat.st_mtime for stat in ours.values())
    return _Folder(path, at, sum(stat.st_size for stat in ours.values()), "metrics.json" in ours)


def _remove(folder: Path) -> None:
    for name in _OURS:
        with suppress(OSError):
            (folder / name).unlink()
    with suppress(OSError):  # it holds a file that toolbridge did not write
        folder.rmdir()


def _value(file: Path) -> Json:
    """Return the JSON value in `file`; None if it is missing or not JSON."""
    try:
        return loads(_bytes(file))
    except (OSError, ValueError):
        return None


def _object(file: Path) -> JsonObject:
    value = _value(file)
    return value if isinstance(value, dict) else {}


def _frames(file: Path) -> list[JsonObject]:
    """Return the lines that are JSON: a killed process may have left an incomplete line."""
    try:
        lines = _bytes(file).split(b"\n")
    except OSError:
        return []
    return [frame for line in lines if (frame := maybe_object(line)) is not None]


def _bytes(file: Path) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | NO_LINK)
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read()
