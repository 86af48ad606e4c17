"""The check that finds code which only tests reach."""

from pathlib import Path

import pytest
from tests.unused import ENTRY_POINTS, SRC, main, needed, read, unused


def found(tmp_path: Path, **modules: str) -> list[str]:
    """Return what is unused in a package of these modules."""
    package = tmp_path / "toolbridge"
    package.mkdir()
    for name, source in modules.items():
        (package / f"{name}.py").write_text(source)
    return [str(name).removeprefix("toolbridge.") for name in unused(read(tmp_path), {})]


def test_nothing_in_src_is_reached_by_tests_alone_and_every_entry_point_is_needed(capsys):
    """One test, because reading `src` takes longer than both checks."""
    assert main() == 0, capsys.readouterr().out
    assert ENTRY_POINTS.keys() - needed(read(SRC), ENTRY_POINTS) == set()


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
