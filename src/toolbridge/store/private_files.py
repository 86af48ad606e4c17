"""Files and folders that only their owner may read: state, logs, process ids, configuration.

They hold prompts, answers and sometimes keys. Modes are set when a file is made, whatever the
umask, so that there is no moment in which others can open it; files of earlier versions that are
open to others are tightened when they are opened.
"""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

FILE = 0o600
FOLDER = 0o700
_POSIX = os.name == "posix"
"""Elsewhere a home directory has access lists, and modes mean nothing."""


def make_folder(folder: Path) -> None:
    """Make `folder`, and those above it, for the owner only; tighten it if it is there."""
    missing = [at for at in (folder, *folder.parents) if not at.exists()]
    for at in reversed(missing):
        with suppress(FileExistsError):
            at.mkdir(mode=FOLDER)
    tighten(folder, FOLDER)


def tighten(path: Path, mode: int) -> None:
    """Take all rights from others. What belongs to somebody else is left as it is."""
    if not _POSIX:
        return
    found = path.stat()
    if stat.S_IMODE(found.st_mode) & ~mode & 0o777 and found.st_uid == os.geteuid():
        path.chmod(stat.S_IMODE(found.st_mode) & mode)


def open_to_append(path: Path) -> int:
    """Return a descriptor that appends to `path`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE)
    tighten(path, FILE)
    return descriptor


def write(path: Path, data: bytes) -> None:
    """Write `path` whole: a reader sees the old content or the new, and never a part."""
    path = path.resolve()  # a link to a file elsewhere stays a link
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600 by itself
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
