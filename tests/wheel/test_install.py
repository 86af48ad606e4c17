"""Every install command that a page or an error names is run, and gives a toolbridge that works.

No package is published, so each command names the clone or the wheel that `make build` writes.
"""

import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from toolbridge.version import __version__

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PACKAGE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TEXTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "clients/typescript").glob("*.md"),
    *(ROOT / "src").rglob("*.py"),
]
_COMMAND = re.compile(r"pip install ('[^'\n]+'|\"[^\"\n]+\"|[^\s`'\"]+)")


def commands() -> dict[str, str]:
    """Return what is installed by the `pip install` commands of pages and errors → one file."""
    return {
        shlex.split(argument)[0]: str(file.relative_to(ROOT))
        for file in TEXTS
        for argument in _COMMAND.findall(file.read_text("utf-8"))
    }


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """Return a copy of what a build reads, with the wheel in `dist`."""
    copy = tmp_path_factory.mktemp("clone")
    for name in ("src", "conformance"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, copy)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(build, cwd=copy, check=True, capture_output=True)
    return copy


@pytest.fixture(scope="module")
def libraries(tmp_path_factory) -> Path:
    """Return a directory with the libraries of this environment, without toolbridge."""
    folder = tmp_path_factory.mktemp("libraries")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "toolbridge" not in entry.name and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return folder


def test_commands_for_the_clone_the_wheel_and_both_extras_are_named():
    wheel = f"dist/toolbridge-{__version__}-py3-none-any.whl"
    assert {".", ".[local]", ".[node]", wheel} <= commands().keys()


@pytest.mark.parametrize("argument", sorted(commands()))
def test_an_install_command_works(argument, clone, libraries, tmp_path):
    """Dependencies are not installed again: the libraries of this environment serve."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True
    )
    python = tmp_path / "venv" / "bin" / "python"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(libraries)}
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--no-compile"]
    flags += ["--disable-pip-version-check"]
    done = subprocess.run(
        [python, "-m", "pip", "install", *flags, argument],
        cwd=clone, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "does not provide the extra" not in done.stderr
    said = subprocess.run(
        [tmp_path / "venv" / "bin" / "toolbridge", "--version"],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == f"toolbridge {__version__}\n"
