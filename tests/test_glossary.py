"""One meaning per name: the glossary of the code.

A public class name stands for one concept in the whole package. Exceptions are the names that every
codec gives to the same concept, the wire structs in `shapes.py` (named as their API names them), and
the events of `sdk/pi`, which are pi's own.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests import prose
from tests.tables import every_row

SRC = Path(__file__).parents[1] / "src" / "toolbridge"
ARCHITECTURE = (SRC.parents[1] / "ARCHITECTURE.md").read_text("utf-8")
IN_EVERY_CODEC = {"StreamDecoder", "StreamEncoder", "TurnDecoder", "TurnEncoder", "Quirks"}
PACKAGES = sorted(
    str(file.parent.relative_to(SRC)) for file in SRC.rglob("__init__.py") if file.parent != SRC
)


def is_exempt(file: Path, name: str) -> bool:
    parts = file.relative_to(SRC).parts
    if parts[0] == "codecs":
        return file.name == "shapes.py" or name in IN_EVERY_CODEC
    return parts[0] == "sdk" and any(part.startswith("pi") for part in parts[1:])


def public_classes() -> dict[str, list[str]]:
    found = defaultdict(list)
    for file in sorted(SRC.rglob("*.py")):
        for name in re.findall(r"^class ([A-Za-z]\w*)", file.read_text("utf-8"), re.MULTILINE):
            if not is_exempt(file, name):
                found[name].append(str(file.relative_to(SRC)))
    return found


def test_a_public_class_name_has_one_meaning():
    assert {name: files for name, files in public_classes().items() if len(files) > 1} == {}


@every_row("package", [p for p in PACKAGES if "/" not in p])
def test_every_package_has_a_sentence_in_the_architecture(package):
    row = re.search(rf"^[├└]── {package}/ +(\S.*)$", ARCHITECTURE, re.MULTILINE)
    assert row, f"ARCHITECTURE.md has no line `├── {package}/ …`"
    assert len(row[1].split()) >= 4


@every_row("package", PACKAGES)
def test_every_package_has_a_docstring(package):
    tree = ast.parse((SRC / package / "__init__.py").read_text("utf-8"))
    assert ast.get_docstring(tree)


def test_the_architecture_names_only_files_that_exist():
    named = set(re.findall(r"(?<![\w/])((?:[a-z_]+/)+[a-z_]+\.py)", ARCHITECTURE))
    assert named
    assert sorted(name for name in named if not (SRC / name).exists()) == []


def test_words_that_are_not_plain_are_found_in_docstrings_and_comments(tmp_path):
    """`make check` runs `python -m tests.prose` over all of `src`."""
    file = tmp_path / "a.py"
    file.write_text('"""It says `told`."""\nx = "said"  # nobody\n')
    assert [(it.line, it.rule) for it in prose.findings(file)] == [
        (1, "personification"),
        (2, "somebody"),
    ]
