"""The check that finds code which only tests reach."""

from pathlib import Path

import pytest
import tests.unused
from tests.unused import main, needed, read, unused


def found(tmp_path: Path, **modules: str) -> list[str]:
    """Return what is unused in a package of these modules."""
    package = tmp_path / "toolbridge"
    package.mkdir()
    for name, source in modules.items():
        (package / f"{name}.py").write_text(source)
    return [str(name).removeprefix("toolbridge.") for name in unused(read(tmp_path), {})]


@pytest.mark.parametrize(
    ("source", "patterns", "status"),
    [
        ("def f(): ...", {}, 1),
        ("def f(): ...", {"toolbridge.a.f": "a user"}, 0),
        ("def f(): ...\nf()", {"toolbridge.a.f": "a user"}, 1),
    ],
    ids=["unused", "an entry point", "an entry point without need"],
)
def test_what_is_unused_and_what_is_not_needed_fail(
    tmp_path, monkeypatch, source, patterns, status
):
    (tmp_path / "toolbridge").mkdir()
    (tmp_path / "toolbridge" / "a.py").write_text(source)
    monkeypatch.setattr(tests.unused, "SRC", tmp_path)
    monkeypatch.setattr(tests.unused, "ENTRY_POINTS", patterns)
    assert main() == status


def test_an_entry_point_that_another_one_or_a_reference_covers_is_not_needed(tmp_path):
    (tmp_path / "toolbridge").mkdir()
    source = "class A:\n    def m(self): f()\ndef f(): ...\ndef g(): ...\ng()\nA()"
    (tmp_path / "toolbridge" / "a.py").write_text(source)
    patterns = ["toolbridge.a.A.*", "toolbridge.a.f", "toolbridge.a.g"]
    assert needed(read(tmp_path), patterns) == {"toolbridge.a.A.*"}


def test_a_function_that_nothing_calls_is_found(tmp_path):
    assert found(tmp_path, a="def used(): ...\ndef dead(): ...\nused()") == ["a.dead"]


def test_two_dead_functions_that_call_each_other_are_found(tmp_path):
    source = "def one(): two()\ndef two(): one()"
    assert found(tmp_path, a=source) == ["a.one", "a.two"]


@pytest.mark.parametrize(
    "user",
    [
        "from toolbridge.a import f\nf()",
        "from toolbridge.a import f as g\ng()",
        "from toolbridge import a\na.f()",
        "def lazy():\n    from toolbridge.a import f\n    f()\nlazy()",
    ],
)
def test_an_import_is_followed(tmp_path, user):
    assert found(tmp_path, __init__="", a="def f(): ...", b=user) == []


def test_an_attribute_of_another_object_does_not_hide_a_dead_function(tmp_path):
    assert found(tmp_path, a="def price(): ...", b="print(object().price)") == ["a.price"]


def test_a_method_of_a_used_class_is_found_and_one_of_a_protocol_is_not(tmp_path):
    source = (
        "from typing import Protocol\n"
        "class Shape(Protocol):\n    def area(self): ...\n"
        "class Square:\n    def area(self): ...\n    def dead(self): ...\n"
        "print(Shape, Square().side)"
    )
    assert found(tmp_path, a=source) == ["a.Square.area", "a.Square.dead"]


def test_constants_count_and_quoted_annotations_refer(tmp_path):
    source = (
        "DEAD = 1\nLIMIT: int = 2\nclass Node: ...\ndef f(a: 'list[Node]'): return LIMIT\nf([])"
    )
    assert found(tmp_path, a=source) == ["a.DEAD"]


def test_only_the_public_names_of_the_package_need_no_user(tmp_path):
    assert found(
        tmp_path,
        __init__="from toolbridge.a import Client\n__all__ = ['Client']",
        a="class Client:\n    def ask(self): ...\n    def _part(self): ...",
        b="from toolbridge.a import other\n__all__ = ['other']",
    ) == ["a.Client._part"]
