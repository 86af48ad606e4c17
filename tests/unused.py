"""Find functions, classes, methods and constants of `src` that only tests reach.

`python -m tests.unused` starts at the code that runs on import, at `toolbridge.__all__` and at
`ENTRY_POINTS`, follows every reference, and fails on the definitions that it does not reach, and on
entry points that reach nothing else. `make check` runs it. A
module-level name is referred to by name in its module, through an import, or as an attribute of its
module; a method by any attribute of that name. So functions that only dead code calls are found
too, but a method is not found while any object of `src` has a used attribute of the same name.

vulture would be the alternative. It compares bare names only (a dead `price()` is hidden by any
attribute `.price`), does not find two dead functions that call each other, and reports every field
of a struct, so its list of exceptions would be several times as long as `ENTRY_POINTS`.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from fnmatch import translate
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

SRC = Path(__file__).parent.parent / "src"
ENTRY_POINTS = {
    "toolbridge.cli.*.arguments": "cli.main, which imports a command by its name",
    "toolbridge.cli.*.run": "the same",
    "toolbridge.cli.*.split": "the same",
    "toolbridge.codecs.*.CODEC": "codecs.load",
    "toolbridge.codecs.*.embeddings.EMBEDDINGS": "codecs.load_embeddings",
    "toolbridge.dialects.*.DIALECT": "dialects.load",
    "toolbridge.dialects.*.DIALECTS": "the same, for a family of dialects in one module",
    "toolbridge.conformance.clients.*.CLIENT": "conformance.clients.load",
    "toolbridge.conformance.upstreams.*.UPSTREAM": "conformance.upstreams.load",
    "toolbridge.conformance.streams.tools.*": "runs.catalog, which loads functions marked with @tool",
    "toolbridge.server.http_protocol.HttpConnection.*": "asyncio, which calls a Protocol's methods",
    "toolbridge.upstream.http_connection.ProviderConnection.*": "the same, and httptools",
    "toolbridge.server.runs.listed": "server.routes, which loads it at the first request",
    "toolbridge.server.runs.one": "the same",
    "toolbridge.server.stream.start": "the same",
    "toolbridge.server.stream.follow": "the same",
    "toolbridge.server.stream.abort": "the same",
    "toolbridge.server.stream.answer_tool": "the same",
    "toolbridge.server.stream.needs_upgrade": "the same",
    "toolbridge.structured.events.[A-Z]*": "callers of the library: toolbridge.stream_events",
    "toolbridge.sdk.pi.events._Event.partial": "callers of PiStream: a field of pi's events",
}
"""Pattern of a full name → its user, which no reference in `src` names."""

_QUOTED_TYPE = re.compile(r"[\w.\[\], |]+")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Name(NamedTuple):
    """A name of a module, or of a class in it. Without a module: an attribute of any object."""

    module: str
    name: str
    owner: str = ""

    def __str__(self) -> str:
        return ".".join(filter(None, (self.module, self.owner, self.name)))


class Names:
    """The names of all modules: definitions with file and line, imports, references by user."""

    def __init__(self) -> None:
        self.defined: dict[Name, str] = {}
        self.imported: dict[Name, set[Name]] = {}
        self.used: dict[Name, set[Name]] = {}

    @cached_property
    def full(self) -> dict[Name, str]:
        return {it: str(it) for it in self.defined}

    @cached_property
    def of_class(self) -> dict[Name, list[Name]]:
        found: dict[Name, list[Name]] = defaultdict(list)
        for it in self.defined:
            if it.owner:
                found[_class_of(it)].append(it)
        return found

    @cached_property
    def by_name(self) -> dict[str, list[Name]]:
        found: dict[str, list[Name]] = defaultdict(list)
        for it in self.defined:
            if it.owner:
                found[it.name].append(it)
        return found

    @cached_property
    def free(self) -> set[Name]:
        """Definitions that need no reference, and methods that need none but that to their class."""
        exported = _exported(self)
        return {
            it
            for it in self.defined
            if _is_free(it, self) or (_class_of(it) in exported and it.name[0] != "_")
        }


@cache
def read(src: Path) -> Names:
    """Return the names of every module below `src`, which is read once."""
    files = {_module_name(file.relative_to(src)): file for file in sorted(src.rglob("*.py"))}
    names = Names()
    for module, file in files.items():
        tree = ast.parse(file.read_text("utf-8"))
        definitions = dict(_definitions(module, tree))
        for node, found in definitions.items():
            names.defined.update(dict.fromkeys(found, f"{file}:{node.lineno}"))
        _Reader(module, files.keys(), definitions, names).visit(tree)
    return names


def _module_name(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _definitions(module: str, tree: ast.Module) -> Iterator[tuple[ast.stmt, list[Name]]]:
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node, [Name(module, node.name)]
            case ast.ClassDef():
                yield node, [Name(module, node.name)]
                for inner in node.body:
                    if isinstance(inner, Function):
                        yield inner, [Name(module, inner.name, node.name)]
            case ast.Assign(targets=targets):
                yield node, [Name(module, name) for it in targets for name in _assigned(it)]
            case ast.AnnAssign(target=target):
                yield node, [Name(module, name) for name in _assigned(target)]


def _assigned(target: ast.expr) -> list[str]:
    return [it.id for it in ast.walk(target) if isinstance(it, ast.Name)]


class _Reader(ast.NodeVisitor):
    """Adds the references of one module, each under the innermost definition that contains it."""

    def __init__(
        self,
        module: str,
        modules: Collection[str],
        definitions: dict[ast.stmt, list[Name]],
        names: Names,
    ) -> None:
        self._module = module
        self._modules = modules
        self._definitions = definitions
        self._names = names
        self._users = [Name(module, "")]
        self._local_modules: dict[str, str] = {}

    def visit(self, node: ast.AST) -> None:
        outer = self._users
        self._users = self._definitions.get(node, outer)
        super().visit(node)
        self._users = outer

    def _refer(self, module: str, name: str) -> None:
        for user in self._users:
            self._names.used.setdefault(user, set()).add(Name(module, name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            local, full = alias.asname or alias.name, f"{node.module}.{alias.name}"
            if full in self._modules:
                self._local_modules[local] = full
            elif node.module in self._modules:
                found = self._names.imported.setdefault(Name(self._module, local), set())
                found.add(Name(node.module, alias.name))

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._refer(self._module, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        value = node.value.id if isinstance(node.value, ast.Name) else ""
        self._refer(self._local_modules.get(value, ""), node.attr)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if _assigned(node.targets[0]) != ["__all__"]:
            self.generic_visit(node)
        elif self._module == "toolbridge":
            for name in ast.literal_eval(node.value):
                self._refer(self._module, name)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Take the capitalised words of a quoted annotation for references."""
        if isinstance(node.value, str) and _QUOTED_TYPE.fullmatch(node.value):
            for name in re.findall(r"\b_?[A-Z]\w*", node.value):
                self._refer(self._module, name)


def unused(names: Names, entry_points: Iterable[str]) -> list[Name]:
    """Return the definitions that neither the code that runs on import nor an entry point reaches.

    Methods are left out where their class is in the list.
    """
    return _unreached(names, reach(names, entry_points))


def needed(names: Names, entry_points: Collection[str]) -> set[str]:
    """Return the entry points without which a definition would be unused."""
    without_any = reach(names, ())  # a part of what any of them reach, so it is followed once
    return {
        pattern
        for pattern in entry_points
        if _unreached(names, reach(names, {*entry_points} - {pattern}, without_any))
    }


def reach(
    names: Names, entry_points: Iterable[str], known: Collection[Name] = frozenset()
) -> set[Name]:
    """Return the names that the code that runs on import, or an entry point, reaches.

    A method is reached if its class is and if an attribute of its name is, or if the interpreter, a
    protocol or a public class has it. `known` are names that fewer entry points reach.
    """
    reached = set(known)
    is_entry_point = re.compile("|".join(map(translate, entry_points)) or r"(?!)").match
    free = names.free | {it for it, text in names.full.items() if is_entry_point(text)}
    waiting = [it for it in names.used if not it.name]  # code outside of definitions
    waiting += [it for it in free if not it.owner or _class_of(it) in reached]
    while waiting:
        it = waiting.pop()
        if it in reached:
            continue
        reached.add(it)
        waiting += names.used.get(it, ())
        waiting += names.imported.get(it, ())
        methods = names.of_class.get(it, ())
        waiting += [m for m in methods if m in free or Name("", m.name) in reached]
        if not it.module:
            waiting += [m for m in names.by_name.get(it.name, ()) if _class_of(m) in reached]
    return reached


def _unreached(names: Names, reached: Collection[Name]) -> list[Name]:
    return [
        it
        for it in names.defined
        if it not in reached and not (it.owner and _class_of(it) not in reached)
    ]


def _class_of(method: Name) -> Name:
    return Name(method.module, method.owner)


def _is_free(it: Name, names: Names) -> bool:
    """Whether a definition needs no reference, or a method none but that to its class."""
    if it.name.startswith("__"):
        return True
    return Name(it.module, "Protocol") in names.used.get(_class_of(it), ())


def _exported(names: Names) -> set[Name]:
    """Return the definitions in `toolbridge.__all__`."""
    found: set[Name] = set()
    waiting = [*names.used.get(Name("toolbridge", "__all__"), ())]
    while waiting:
        it = waiting.pop()
        found.add(it)
        waiting += names.imported.get(it, ())
    return found


def main() -> int:
    names = read(SRC)
    found = unused(names, ENTRY_POINTS)
    for it in found:
        print(f"{names.defined[it]}: {it} is reached by no code of src")
    needless = ENTRY_POINTS.keys() - needed(names, ENTRY_POINTS)
    for pattern in sorted(needless):
        print(f"{__file__}: remove the entry point {pattern}: nothing is unused without it")
    return 1 if found or needless else 0


if __name__ == "__main__":
    sys.exit(main())
