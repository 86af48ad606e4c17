"""`fs.read`: reads a text file below one of the allowed directories.

Each component of a path is opened relative to the directory before it, and no symbolic link is
followed, so a change between check and read cannot lead outside. Only regular files are read.
"""

import codecs
import os
import stat
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.tools.context import ToolContext, ToolRefused
from toolbridge.tools.functions import schema_of
from toolbridge.tools.registry import RegisteredTool
from toolbridge.tools.structs import read_arguments

MOST = 32_768
_WRITTEN = 60_000


def _flags(*names: str) -> int:
    """Return those flags that this system has; on Windows most are missing, and the tool is disabled."""
    return sum(getattr(os, name, 0) for name in names)


_FOLDER = _flags("O_RDONLY", "O_DIRECTORY", "O_CLOEXEC")
_NO_LINK = _flags("O_NOFOLLOW")
# Opening a pipe would block, and opening a terminal could make it our controlling terminal.
_FILE = _flags("O_RDONLY", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC") | _NO_LINK


class FsRead(msgspec.Struct, frozen=True):
    """Read a text file."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    offset: Annotated[int, Meta(ge=0, description="the byte to begin at")] = 0
    limit: Annotated[int, Meta(ge=1, le=MOST, description="bytes to read at most")] = MOST


def fs_read(roots: Iterable[Path]) -> RegisteredTool:
    """Return the tool for files below `roots`; a relative path is tried in each of them, in order."""
    if os.open not in os.supports_dir_fd:
        raise ConfigError(
            "fs.read is not available: this system lacks O_NOFOLLOW", where="stream.roots"
        )
    allowed = tuple(Path(root).absolute() for root in roots)

    def run(arguments: JsonObject, _context: ToolContext) -> JsonObject:
        return read(allowed, read_arguments(arguments, FsRead))

    return RegisteredTool(
        "fs.read",
        "Read a text file, or a part of it. Paths are relative to the allowed folders.",
        schema_of(FsRead),
        run,
        idempotent=True,
    )


def read(roots: tuple[Path, ...], asked: FsRead) -> JsonObject:
    for root, steps in _candidates(roots, asked.path):
        try:
            with ExitStack() as stack:
                return _read(_open(root, steps, asked.path, stack), asked)
        except FileNotFoundError:
            continue
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ToolRefused("unreadable", f"{asked.path!r} cannot be read: {reason}") from None
    raise ToolRefused("not_found", f"there is no file {asked.path!r} in the allowed folders")


def _candidates(roots: tuple[Path, ...], path: str) -> list[tuple[Path, list[str]]]:
    """Return the candidates for `path`: a root, and the path components below it."""
    if "\0" in path:
        raise _outside(path)
    if not path.startswith("/"):
        return [(root, _steps(path, path)) for root in roots]
    found = [
        (root, _steps(path.removeprefix(f"{root}"), path))
        for root in roots
        if path.startswith(f"{str(root).rstrip('/')}/")
    ]
    if not found:
        raise _outside(path)
    return found


def _steps(below: str, path: str) -> list[str]:
    steps = [step for step in below.split("/") if step not in {"", "."}]
    if not steps or ".." in steps:
        raise _outside(path)
    return steps


def _open(root: Path, steps: list[str], path: str, stack: ExitStack) -> int:
    """Return a file descriptor that `stack` closes."""
    # The root comes from the configuration, so it may itself be a link.
    folder = _held(os.open(root, _FOLDER), stack)
    for step in steps[:-1]:
        _refuse_link(folder, step, path)
        folder = _held(os.open(step, _FOLDER | _NO_LINK, dir_fd=folder), stack)
    # Opening a device can have effects, so the type is checked before opening, and again after.
    _refuse_link(folder, steps[-1], path)
    _refuse_special(os.stat(steps[-1], dir_fd=folder, follow_symlinks=False), path)
    file = _held(os.open(steps[-1], _FILE, dir_fd=folder), stack)
    _refuse_special(os.fstat(file), path)
    return file


def _held(descriptor: int, stack: ExitStack) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _refuse_link(folder: int, step: str, path: str) -> None:
    if stat.S_ISLNK(os.stat(step, dir_fd=folder, follow_symlinks=False).st_mode):
        raise ToolRefused(
            "not_allowed", f"{path!r} contains a symbolic link; links are not followed"
        )


def _refuse_special(found: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = "folder" if stat.S_ISDIR(found.st_mode) else "device or a pipe"
        raise ToolRefused("not_a_file", f"{path!r} is a {kind}, not a file")


def _read(file: int, asked: FsRead) -> JsonObject:
    size = os.fstat(file).st_size
    data = os.pread(file, asked.limit, asked.offset)
    while True:
        end = asked.offset + len(data)
        text, used = _decoded(data, more=bool(data) and end < size)
        # A control character takes six bytes in JSON, and the whole must fit the result limit.
        if len(dump_bytes(text)) <= _WRITTEN:
            break
        data = data[: len(data) // 2]
    found: JsonObject = {"path": asked.path, "size": size, "text": text}
    if data and end < size:
        found["next_offset"] = asked.offset + used
    return found


def _decoded(data: bytes, *, more: bool) -> tuple[str, int]:
    """Return the text of `data` and the number of bytes decoded.

    A character that is cut at the limit is left for the next read.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=not more)
    used = len(data) - len(decoder.getstate()[0])
    return (text, used) if used else (data.decode("utf-8", "replace"), len(data))


def _outside(path: str) -> ToolRefused:
    return ToolRefused("not_allowed", f"{path!r} is not below an allowed folder")
