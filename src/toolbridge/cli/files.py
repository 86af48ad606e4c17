"""Files that are given on a command line; errors name the file and not the number of the system."""

import os
from pathlib import Path

from toolbridge.core.errors import ConfigError, MalformedRequest


def read_file(path: Path) -> bytes:
    """Return the content of a file that the user named."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise MalformedRequest(f"there is no file {path}; check the path") from None
    except OSError as error:
        raise MalformedRequest(f"cannot be read: {error.strerror}", where=str(path)) from None


def check_writable(path: Path) -> None:
    """Raise `ConfigError` if `path` cannot be written, before the work for it is done."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ConfigError(f"{path} cannot be written: there is no directory {folder}")
    if path.is_dir():
        raise ConfigError(f"{path} cannot be written: it is a directory")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigError(f"{path} cannot be written: permission denied")
