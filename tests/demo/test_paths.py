from tests.tables import every_row

from toolbridge.demo.paths import NamedPath, absolute, find_path, is_path, unquote


@every_row("token", ["a.txt", "/x", "./x", "~/x", "src/a.py", ".gitignore", "Makefile", "C:\\x"])
def test_names_of_files_are_known_by_their_form(token):
    assert is_path(token)


@every_row(
    "token", ["", "hello", "3.5", "e.g", "and/or", "Node.js", "example.com", "https://x.y/a.txt"]
)
def test_other_words_are_no_paths(token):
    assert not is_path(token)


@every_row(
    ("text", "path"),
    [
        ("a file called notes with", "notes"),
        ("the file data in", "data"),
        ("see 'a b.txt' or c.txt", "c.txt"),
        ("named `x y`", "x y"),
        ("read x.txt.", "x.txt"),
    ],
)
def test_the_first_named_file_is_found(text, path):
    named = find_path(text)
    assert named is not None
    assert named.path == path
    assert path in text[named.start : named.end]


def test_text_without_a_file_names_none():
    assert find_path("a file in there, called it") is None


def test_a_file_is_found_where_it_stands():
    assert find_path("to x.txt!") == NamedPath("x.txt", 3, 8)


@every_row(
    ("text", "inside"),
    [
        ('"a"', "a"),
        ("'a b'", "a b"),
        ("`a`", "a"),
        ("“a”", "a"),
        ('"a" "b"', '"a" "b"'),
        ("'", "'"),
    ],
)
def test_quotes_are_taken_off_when_they_hold_everything(text, inside):
    assert unquote(text) == inside


@every_row(
    ("path", "cwd", "whole"),
    [
        ("a.txt", "/w", "/w/a.txt"),
        ("./a.txt", "/w/", "/w/a.txt"),
        (".", "/w", "/w"),
        ("/a.txt", "/w", "/a.txt"),
        ("~/a.txt", "/w", "~/a.txt"),
        ("a.txt", "", "a.txt"),
        ("a.txt", "C:\\w", "C:\\w\\a.txt"),
    ],
)
def test_paths_are_made_absolute_where_the_place_is_known(path, cwd, whole):
    assert absolute(path, cwd) == whole
