"""The log: one line per request, whatever happens to it."""

import io
import json

import pytest

from toolbridge.core.messages import HealingReport, Loss, Message, Step
from toolbridge.core.redaction import Redactor
from toolbridge.server.request_log import Entry, RequestLog


class Full(io.StringIO):
    """A disk without room."""

    def write(self, _: str, /) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.req("PX-X6")
def test_a_log_that_cannot_be_written_harms_no_answer():
    RequestLog("json", Full()).write(Entry("req_00000000").line(200))


@pytest.mark.req("PX-X6")
@pytest.mark.parametrize("style", ["json", "pretty"])
def test_a_line_is_one_line_whatever_was_asked(style):
    out = io.StringIO()
    entry = Entry("req_00000000")
    entry.note(http__request__method="GET", url__path="/x\n\x1b[31m\x9b", error__type="e")
    entry.note(error__message="a\rb\u2028c")
    RequestLog(style, out).write(entry.line(404))
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().endswith("\n")
    assert not {"\x1b", "\r"} & set(out.getvalue())
    if style == "json":
        assert json.loads(out.getvalue())["url.path"] == "/x\n\x1b[31m\x9b"
    else:
        assert "\x9b" not in out.getvalue()


@pytest.mark.req("PX-X6", "TF-50")
@pytest.mark.parametrize("style", ["json", "pretty"])
def test_a_line_is_bounded_and_holds_no_secret(style):
    out = io.StringIO()
    entry = Entry("req_00000000")
    entry.note(url__path="/" + "x" * 100_000, session__id="sk_live_123456", error__type="e")
    entry.note(error__message=f"the key open-sesame {'y' * 100_000}")
    entry.losses = [Loss(f"extra.{n}", "z" * 1000) for n in range(1000)]
    RequestLog(style, out, Redactor(["open-sesame"])).write(entry.line(400))
    assert len(out.getvalue()) < 20_000
    assert "sesame" not in out.getvalue()
    assert "sk_live" not in out.getvalue()
    if style == "json":
        assert json.loads(out.getvalue())["session.id"] == "[redacted]"


def test_what_the_model_wrote_is_not_in_the_line():
    out = io.StringIO()
    entry = Entry("req_00000000")
    steps = (Step("trailing comma removed", 1, '{"a":"private",}', '{"a":"private"}'),)
    entry.finish(Message(healed=(HealingReport("c1", "t", 1, steps),)))
    RequestLog("json", out).write(entry.line(200))
    assert "private" not in out.getvalue()
    [healed] = json.loads(out.getvalue())["healed"]
    assert healed == {
        "name": "t",
        "level": 1,
        "steps": [{"what": "trailing comma removed", "level": 1}],
    }


@pytest.mark.parametrize("style", ["json", "pretty", "auto"])
def test_a_log_that_is_closed_or_missing_harms_no_answer(style, monkeypatch):
    closed = io.StringIO()
    closed.close()
    RequestLog(style, closed).write(Entry("req_00000000").line(200))
    monkeypatch.setattr("sys.stderr", None)
    RequestLog(style).write(Entry("req_00000000").line(200))
