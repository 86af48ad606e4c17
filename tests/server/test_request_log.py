"""The log: one line per request, whatever happens to it."""

import asyncio
import io
import json
import os
import socket
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.peers import gateway

from toolbridge.config import Config
from toolbridge.core.messages import HealingReport, Loss, Message, Problem, Step
from toolbridge.core.redaction import Redactor
from toolbridge.core.usage import Usage
from toolbridge.server.http import IncomingRequest
from toolbridge.server.http_head import Head
from toolbridge.server.request_log import Entry, RequestLog


class Full(io.StringIO):
    """A disk without room."""

    def write(self, _: str, /) -> int:
        raise OSError(28, "No space left on device")


def write(log: RequestLog, entry: Entry, status: int = 200) -> None:
    log.add(entry, status)
    log.write_added(later=False)


@pytest.mark.req("PX-X6")
def test_a_log_that_cannot_be_written_harms_no_answer():
    write(RequestLog("json", Full()), Entry("req_00000000"), 200)


@pytest.mark.req("PX-X6")
@pytest.mark.parametrize("style", ["json", "pretty"])
def test_a_line_is_one_line_whatever_was_asked(style):
    out = io.StringIO()
    entry = Entry("req_00000000")
    entry.note(http__request__method="GET", url__path="/x\n\x1b[31m\x9b", error__type="e")
    entry.note(error__message="a\rb\u2028c")
    write(RequestLog(style, out), entry, 404)
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
    write(RequestLog(style, out, Redactor(["open-sesame"])), entry, 400)
    assert len(out.getvalue()) < 20_000
    assert "sesame" not in out.getvalue()
    assert "sk_live" not in out.getvalue()
    if style == "json":
        assert json.loads(out.getvalue())["session.id"] == "[redacted]"


async def test_the_lines_of_a_turn_are_one_write(monkeypatch):
    # A socket for datagrams shows what is one write.
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with reader, os.fdopen(writer.detach(), "w") as out:
        monkeypatch.setattr(sys, "stderr", out)
        async with gateway(Config(log="json")) as (_, app):
            reader.setblocking(False)
            app.record(Entry("req_0000000a"), 200)
            assert reader.recv(65_536).count(b"\n") == 1, "no other request runs: it is written now"
            head = Head("GET", "/", b"", {})
            app.admit(IncomingRequest(head), Entry("req_0000000b"))
            for n in range(3):
                app.record(Entry(f"req_{n:08x}"), 200)
            with pytest.raises(BlockingIOError):
                reader.recv(65_536)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            lines = reader.recv(65_536).splitlines()
            assert [json.loads(line)["request.id"] for line in lines] == [
                f"req_{n:08x}" for n in range(3)
            ]
            app.record(Entry("req_0000000c"), 200)
        assert b"req_0000000c" in reader.recv(65_536)


class SlowLog(RequestLog):
    """A log that looks for secrets in each line as a whole."""

    def _has_plain_fields(self, _):
        return False


WORDS = [
    "sk_live_123456", "sk-", "password=", "a", "/v1/messages", "open-sesame", " ", "\n", "\x7f", '"', "\\",
    "é", "\u2028", "token", "key", ":", "=", "?sig=a", "&", "://a:b@", "Bearer ", "0123456789abcdef", "x" * 501,
    "claude-sonnet-4-5", "{", "[", "'", ",", "max_tokens", "password='", 'token="', "secret:", "api_key", '\\"',
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=4).map("".join)


def written(kind: type[RequestLog], requests) -> str:
    out = io.StringIO()
    log = kind("json", out, Redactor(["open-sesame"]))
    for path, model, routes, id, error in requests:
        entry = Entry("req_00000000")
        entry.at, entry.took = 1_700_000_000.25, 0.0015
        entry.note(url__path=path, gen_ai__request__model=model)
        if routes:
            entry.fields["routes.tried"] = routes
        if id:
            entry.note(upstream__request__id=id)
        problem = Problem("overloaded", error) if error else None
        if error:
            entry.note(error__type="aborted")
        entry.finish(Message(stop="end", problem=problem))
        write(log, entry)
    return out.getvalue()


REQUESTS = st.tuples(TEXTS, TEXTS, st.lists(TEXTS, max_size=3), TEXTS, TEXTS)


@given(st.lists(REQUESTS, max_size=4))
@example([(word, "a", [], "", "") for word in WORDS])
@example([("a", "a", [word], "", "") for word in WORDS])
@example([("a", "a", [], word, "") for word in WORDS])
@example([("a", "a", [], "b", word) for word in WORDS])
@example([("a", "b", ["x"] * 21, "", "")])
def test_lines_that_need_no_change_are_written_like_all_others(requests):
    assert written(RequestLog, requests) == written(SlowLog, requests)


def test_a_field_with_the_name_of_a_secret_is_masked():
    out = io.StringIO()
    entry = Entry("req_00000000")
    entry.fields["api_key"] = "hunter2"
    write(RequestLog("json", out), entry)
    assert json.loads(out.getvalue())["api_key"] == "[redacted]"


def test_what_the_model_wrote_is_not_in_the_line():
    out = io.StringIO()
    entry = Entry("req_00000000")
    steps = (Step("trailing comma removed", 1, '{"a":"private",}', '{"a":"private"}'),)
    entry.finish(Message(healed=(HealingReport("c1", "t", 1, steps),)))
    write(RequestLog("json", out), entry, 200)
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
    write(RequestLog(style, closed), Entry("req_00000000"), 200)
    monkeypatch.setattr("sys.stderr", None)
    write(RequestLog(style), Entry("req_00000000"), 200)


def test_the_row_of_a_running_request_has_its_time_so_far():
    entry = Entry("req_00000000")
    entry.started -= 2.5
    row = entry.running_row(Usage(), True)
    assert row.error == "interrupted"
    assert 2500 <= row.total_ms < 60_000
    entry.took = 0.25
    assert entry.row(200).total_ms == 250
