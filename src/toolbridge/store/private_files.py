"""Files and folders that only their owner may read: state, logs, process ids, configuration.

They contain prompts, answers and sometimes keys. The mode is set when a file is created, whatever
the umask, so that others can never open it. Files of earlier versions that are open to others get
the right mode when they are opened.
"""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

FILE = 0o600
FOLDER = 0o700
_POSIX = os.name == "posix"
"""On Windows the home directory has access control lists, and modes have no effect."""


def make_folder(folder: Path) -> None:
    """Create `folder` and its parents for the owner only; tighten it if it exists."""
    missing = [at for at in (folder, *folder.parents) if not at.exists()]
    for at in reversed(missing):
        with suppress(FileExistsError):
            at.mkdir(mode=FOLDER)
    tighten(folder, FOLDER)


def folder_fault(folder: Path) -> str:
    """Return why no file can be created in `folder`, empty if one can; create a missing folder."""
    try:
        make_folder(folder)
    except OSError as error:
        return error.strerror or str(error)
    if not folder.is_dir():
        return "it is not a folder"
    return "" if os.access(folder, os.W_OK | os.X_OK) else "it is not writable"


def tighten(path: Path, mode: int) -> None:
    """Remove the permissions that `mode` does not have, unless the path has another owner."""
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
    """Replace `path` atomically: a reader sees the old content or the new, never a part."""
    path = path.resolve()  # a link to a file elsewhere stays a link
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600 by itself
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
