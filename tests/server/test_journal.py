"""The log: one line per request, whatever happens to it."""

import io
import json

import pytest

from toolbridge.server.journal import Entry, Journal


class Full(io.StringIO):
    """A disk without room."""

    def write(self, _: str, /) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.req("PX-X6")
def test_a_log_that_cannot_be_written_harms_no_answer():
    Journal("json", Full()).write(Entry("req_00000000").line(200))


@pytest.mark.req("PX-X6")
@pytest.mark.parametrize("style", ["json", "pretty"])
def test_a_line_is_one_line_whatever_was_asked(style):
    out = io.StringIO()
    entry = Entry("req_00000000")
    entry.note(http__request__method="GET", url__path="/x\n\x1b[31m\x9b", error__type="e")
    entry.note(error__message="a\rb\u2028c")
    Journal(style, out).write(entry.line(404))
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().endswith("\n")
    assert not {"\x1b", "\r"} & set(out.getvalue())
    if style == "json":
        assert json.loads(out.getvalue())["url.path"] == "/x\n\x1b[31m\x9b"
    else:
        assert "\x9b" not in out.getvalue()
