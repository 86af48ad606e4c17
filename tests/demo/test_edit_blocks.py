"""Files in the edit formats of aider, and the rules that it appends to the user's words."""

from tests.tables import every_row

from toolbridge.demo.edit_blocks import edit_of, without_rules
from toolbridge.demo.intent import RunCommand, WriteFile

BLOCKS = "Use the *SEARCH/REPLACE block* format."
LISTING = "Use the *file listing* format."


def block(path: str, lines: str) -> str:
    return f"{path}\n```\n<<<<<<< SEARCH\n=======\n{lines}>>>>>>> REPLACE\n```"


@every_row(("content", "lines"), [("hi", "hi\n"), ("hi\n", "hi\n"), ("", ""), ("a\nb", "a\nb\n")])
def test_a_file_ends_with_one_line_end_and_an_empty_one_with_none(content, lines):
    assert edit_of([WriteFile("a.txt", content)], LISTING) == f"a.txt\n```\n{lines}```"
    assert edit_of([WriteFile("a.txt", content)], BLOCKS) == block("a.txt", lines)


def test_several_files_are_written_one_after_the_other():
    two = [WriteFile("a", "1"), WriteFile("b", "2")]
    assert edit_of(two, BLOCKS) == "\n\n".join([block("a", "1\n"), block("b", "2\n")])
    assert edit_of(two, LISTING) == "a\n```\n1\n```\n\nb\n```\n2\n```"


@every_row(
    ("intents", "system"),
    [
        ([], BLOCKS),
        ([WriteFile("a", "1")], "Be kind."),
        ([WriteFile("a", "1"), RunCommand("ls")], BLOCKS),
        ([RunCommand("ls")], LISTING),
    ],
)
def test_without_a_format_or_with_something_else_to_do_nothing_is_written(intents, system):
    assert edit_of(intents, system) == ""


@every_row(
    "rules",
    [
        "To suggest changes to a file you MUST return it whole.",
        "# *SEARCH/REPLACE block* Rules:",
        "# File editing rules:",
        "Every *SEARCH/REPLACE block* must use this format:",
    ],
)
def test_the_rules_after_the_words_are_left_out(rules):
    assert without_rules(f"Write a file. \n\n {rules}\nmore") == "Write a file."
    assert without_rules("Write a file. \n") == "Write a file. \n"
