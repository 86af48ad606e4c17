"""Check the types of the Python examples in README.md and docs/ with `mypy --strict`.

`python -m tests.example_types` prints each error with the page and line of its example. A reader copies
an example into a program, and a checker of types there must not complain about it.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CACHE = ROOT / ".mypy_cache" / "examples"
_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ERROR = re.compile(r"^example_(\d+)\.py:(\d+): (.*)$", re.MULTILINE)


def examples(pages: Iterable[Path]) -> list[tuple[Path, int, str]]:
    """Return the page, the line before its first one, and the text of each example."""
    return [
        (page, text.count("\n", 0, found.start(1)), found[1])
        for page in pages
        for text in [page.read_text("utf-8")]
        for found in _EXAMPLE.finditer(text)
    ]


def faults(pages: Iterable[Path]) -> list[str]:
    """Return mypy's errors with the page and line of the example."""
    found = examples(pages)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"example_{n}.py") for n in range(len(found))]
        for file, (_, _, text) in zip(files, found, strict=True):
            file.write_text(text, "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary",
             "--cache-dir", str(CACHE), *(file.name for file in files)],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode not in {0, 1}:
        raise RuntimeError(done.stderr or done.stdout)
    errors = []
    for number, line, text in _ERROR.findall(done.stdout):
        page, before, _ = found[int(number)]
        errors.append(f"{page}:{before + int(line)}: {text}")
    return errors


if __name__ == "__main__":
    errors = faults(PAGES)
    print("\n".join(errors) or f"{len(examples(PAGES))} examples have no error of types")
    sys.exit(1 if errors else 0)
