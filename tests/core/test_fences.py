from tests.tables import every_row

from toolbridge.core.fences import fenced


@every_row(
    ("text", "language", "expected"),
    [
        ("print(1)", "PYTHON", "\n```python\nprint(1)\n```\n"),
        ("1\n", "", "\n```\n1\n```\n"),
        (" \n", "python", ""),
        ("a\n```\nb", "", "\n````\na\n```\nb\n````\n"),
        ("x", "no language\nat all", "\n```\nx\n```\n"),
    ],
)
def test_code_stands_between_fences_that_it_cannot_close(text, language, expected):
    assert fenced(text, language) == expected
