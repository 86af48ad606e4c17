"""Copies of the tree in which the product is changed on purpose, and interpreters that use them."""

import os
import shutil
import subprocess
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src", "toolbridge")


@contextmanager
def copies(number: int) -> Iterator[list[Path]]:
    """Yield `number` copies of what git knows or would add, each in a directory of its own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    files = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    with tempfile.TemporaryDirectory(prefix="toolbridge-break-") as directory:
        trees = [Path(directory, str(n), "tree") for n in range(number)]
        for tree in trees:
            for name in files:
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        yield trees


def interpreter(tree: Path) -> Path:
    """Return an interpreter that imports the product of the copy, in any environment.

    Tests start processes with few variables, so `PYTHONPATH` alone does not reach them.
    """
    home = tree.parent / "venv"
    if not home.exists():
        venv.create(home, symlinks=True)
        own = sysconfig.get_path("purelib", "venv", {"base": str(home)})
        packages = sysconfig.get_path("purelib")
        text = f"{tree / 'src'}\nimport site; site.addsitedir({packages!r})\n"
        Path(own, "copy.pth").write_text(text, "utf-8")
    return home / "bin" / "python"


def environment(tree: Path) -> dict[str, str]:
    """Return the variables for tests of the copy."""
    return os.environ | {"PYTHONPATH": str(tree / "src"), "CI": "1"}
