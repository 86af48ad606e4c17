from base64 import b64encode

from tests.tables import every_row

from toolbridge.core.messages import Document, Reference, Request, Result, Text, Turn
from toolbridge.core.parts_text import available_text, document_text, foreign_text
from toolbridge.core.tool_search import found_tools


def base64(data):
    return b64encode(data).decode()


@every_row(
    ("document", "text"),
    [
        (Document(text="a"), "a"),
        (Document(text="a", title="t", context="c"), "[document: t]\nc\na"),
        (Document(data=base64("é".encode()), media_type="text/plain"), "é"),
        (Document(data=base64(b"\xff"), media_type="text/plain"), "\ufffd"),
        (Document(data=base64(b"a"), media_type="application/pdf", title="t"), ""),
        (Document(data="a", media_type="text/plain"), ""),
        (Document(url="https://a.example/b.txt", media_type="text/plain"), ""),
    ],
)
def test_a_document_is_its_title_its_context_and_its_text(document, text):
    assert document_text(document) == text


def test_a_found_tool_is_named_with_its_schema_where_there_is_one():
    assert available_text("f") == "Tool f is now available."
    assert available_text("f", {"type": "object"}) == 'Tool f is now available: {"type":"object"}'


def test_titles_links_and_passages_are_found_at_any_depth():
    raw = {"type": "x", "content": [{"title": "t", "url": "u", "more": {"text": "p"}}, 3]}
    assert foreign_text(raw) == "t\nu\np"


def test_what_is_nested_too_deeply_is_left_out():
    raw = {"text": "a"}
    for _ in range(10_000):
        raw = {"a": raw}
    assert foreign_text(raw) == ""


def test_found_tools_keep_the_order_of_the_searches():
    found = [Reference("b"), Text("x"), Reference("a"), Reference("b")]
    turns = (Turn("user", (Result("c", tuple(found)),)), Turn("user", (Reference("z"),)))
    assert list(found_tools(Request("m", turns=turns))) == ["b", "a", "z"]
