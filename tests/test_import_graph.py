"""The import graph of `src` has no cycle, and things that must exist once are in one module."""

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.tables import every_row

SRC = Path(__file__).parents[1] / "src"
FILES = sorted((SRC / "toolbridge").rglob("*.py"))


def _name(file: Path) -> str:
    parts = file.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(file): file for file in FILES}


def _imports(source: str, modules: set[str]) -> Iterator[str]:
    """Yield the modules that `source` imports: at the top, in functions and for type checkers.

    `from package import module` is an import of the module; the package's own `__init__` counts
    only where a name is taken from it.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name in modules)
            case ast.ImportFrom(module=str() as package, names=names, level=0):
                for one in names:
                    name = f"{package}.{one.name}"
                    if name in modules:
                        yield name
                    elif package in modules:
                        yield package


def _cycle(sources: dict[str, str]) -> list[str]:
    """Return the modules of one import cycle, none if there is no cycle."""
    graph = {name: {*_imports(text, set(sources))} - {name} for name, text in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others():
    """Imports for type checkers count too: two files that need each other's types are one unit."""
    assert _cycle({name: file.read_text("utf-8") for name, file in MODULES.items()}) == []


@every_row(
    "second",
    [
        "import a",
        "from a import x",
        "def f():\n    from a import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import x",
    ],
)
def test_a_cycle_is_found_wherever_the_import_stands(second):
    assert set(_cycle({"a": "import b", "b": second})) == {"a", "b"}


@pytest.mark.parametrize(
    ("pattern", "module"),
    [
        (r"""(?:get\(|\[)"XDG_STATE_HOME""", "toolbridge.state_dir"),
        (r"ClientSession\(\s", "toolbridge.upstream.session"),
        (r"blake2b\((?:caller|key)\.encode\(\), digest_size=16\)", "toolbridge.core.caller"),
    ],
    ids=["the state directory", "the HTTP client session", "the caller's hash"],
)
def test_what_must_exist_once_is_in_one_module(pattern, module):
    found = [name for name, file in MODULES.items() if re.search(pattern, file.read_text("utf-8"))]
    assert found == [module]
