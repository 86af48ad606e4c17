"""The Python interpreters of this machine: on the PATH, of pyenv and of uv."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ASK = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def supported() -> list[str]:
    """Return the versions that the classifiers of the package name, such as `3.11`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    prefix = "Programming Language :: Python :: "
    return [c.removeprefix(prefix) for c in project["classifiers"] if c.startswith(prefix)]


def find_python(version: str) -> Path | None:
    """Return an interpreter of `version` that can make virtual environments."""
    return next((path for path in _candidates(version) if _is(path, version)), None)


def _candidates(version: str) -> Iterator[Path]:
    if sys.version.startswith(f"{version}."):
        yield Path(sys.executable)
    if found := shutil.which(f"python{version}"):
        yield Path(found)
    home = Path(os.environ.get("HOME", "/"))
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python"))
    yield from sorted(uv.glob(f"cpython-{version}.*/bin/python3"))


def _is(path: Path, version: str) -> bool:
    # A shim of pyenv exists for every version that any project uses, and fails for the others.
    asked = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, check=False)
    return asked.returncode == 0 and asked.stdout.strip() == version
