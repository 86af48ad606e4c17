"""The check of the types of examples finds what a reader's checker would find."""

from tests.example_types import PAGES, examples, faults


def test_an_error_has_the_page_and_the_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx: int = 1\n```\n\n```python\ny: int = 2\ny = 'a'\n```\n")
    (error,) = faults([page])
    assert error.startswith(f"{page}:9: error: Incompatible types in assignment")


def test_an_example_without_errors_has_none(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx: int = 1\n```\n")
    assert faults([page]) == []


def test_the_examples_of_the_guide_are_checked():
    assert {page.name for page, _, _ in examples(PAGES)} >= {
        "README.md",
        "library.md",
        "streams.md",
    }
