"""Structured streams in the terminal: `demo`, `runs`, `show` and `replay`."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
import time

import pytest
from tests.streams import reply, scripted, streaming, thing
from tests.tables import every_row

from toolbridge.cli import main
from toolbridge.cli.demo_trace import Trace, wants_colour
from toolbridge.cli.show_timeline import draw, recorded_events, rows_of
from toolbridge.structured import events as fe

TOOLBRIDGE = [sys.executable, "-m", "toolbridge"]
FRAMES = [
    {"ms": 1.0, "event": "text.delta", "data": {"text": "Hi\n"}},
    {"ms": 2.0, "event": "text.delta", "data": {"text": "there"}},
    {"ms": 3.0, "event": "json.begin", "data": {"id": "O1", "schema": "Action"}},
    {"ms": 4.0, "event": "json.delta", "data": {"id": "O1", "chunk": "{}"}},
    {"ms": 50.0, "event": "json.end", "data": {"id": "O1", "length": 2, "status": "repaired", "value": 1}},
    {"ms": 51.0, "event": "tool.call", "data": {"id": "T1", "name": "t", "args": {}}},
    {"ms": 60.0, "event": "strange", "data": {}},
    {"ms": "no", "event": "done", "data": {}},
    {"ms": 99.0, "event": "error", "data": {"code": "aborted", "message": "\x1b[2Jbad"}},
    {"ms": 100.0, "event": "done", "data": {}},
]  # fmt: skip


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.req("TF-59", "TF-65")
def test_the_demo_prints_a_trace_of_everything_that_happens(home, capsys):
    began = time.monotonic()
    assert main(["demo", "--pause", "0.3"]) == 0
    assert time.monotonic() - began > 0.3
    shown = capsys.readouterr().out
    lines = [line.split(None, 3) for line in shown.splitlines() if re.match(r" +\d+ ms", line)]
    assert [line[2] for line in lines] == [
        "text", "object", "object", "tool", "tool", "pause", "pause", "text", "object", "object",
        "tool", "tool", "text", "result", "result", "done",
    ]  # fmt: skip
    assert "REPAIRED" in shown
    assert re.search(r"Booked: Luigi's Pizza.*19:00.*BK-", shown)
    assert "\x1b" not in shown


def test_the_demo_as_json_is_one_event_a_line(home, capsys):
    assert main(["demo", "--json", "--pause", "0"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1]["event"] == "done"
    assert all(fe.event_from(line["event"], line["data"]) for line in lines)


def test_other_words_may_be_asked(home, capsys):
    assert main(["demo", "--pause", "0", "what", "is", "6*7"]) == 0
    assert "42" in capsys.readouterr().out


def test_a_demo_that_cannot_be_says_why(home, capsys):
    assert main(["demo", "--url", "http://127.0.0.1:1/", "--profile", "demo"]) == 1
    assert "connection_lost" in capsys.readouterr().err
    assert main(["demo", "--profile", "night"]) == 1
    assert "there is no profile" in capsys.readouterr().err


async def test_a_running_server_is_asked_and_a_degraded_result_is_no_success(env):
    answers = (
        thing("O1", "Action", {"mode": "search", "target": {"kind": "place", "id": "x"}}) + reply(),
        "⟦BEGIN_RESULT id=R1 schema=AssistantReply⟧{}⟦END_RESULT id=R1⟧",
        "still nothing",
    )
    async with streaming(scripted(*answers), key="secret") as (url, _, _):

        def demo():
            return subprocess.run(
                [*TOOLBRIDGE, "demo", "--url", url, "--json"],
                capture_output=True, env=env | {"TOOLBRIDGE_KEY": "secret"}, timeout=20, check=False,
            )  # fmt: skip

        first = await asyncio.to_thread(demo)
        assert (first.returncode, first.stderr) == (0, b"")
        second = await asyncio.to_thread(demo)
        assert second.returncode == 1
        assert b'"degraded"' in second.stdout


def test_on_a_terminal_there_are_colours_and_a_pace(env):
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*TOOLBRIDGE, "demo", "--pause", "0", "--pace", "0.001"], stdout=follower, env=env
    ) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        assert process.wait(20) == 0
    os.close(leader)
    assert b"\x1b[36mobject" in shown


@every_row(
    ("env", "terminal", "colour"),
    [({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False), ({"TERM": "dumb"}, True, False)],
)  # fmt: skip
def test_colours_are_only_for_terminals_that_want_them(env, terminal, colour):
    assert wants_colour(env, is_terminal=terminal) is colour


@pytest.mark.req("TF-48", "TF-49")
def test_runs_are_listed_shown_and_told_again(home, capsys):
    main(["runs"])
    assert "there are no runs" in capsys.readouterr().out
    main(["demo", "--pause", "0", "--json"])
    first = capsys.readouterr().out.splitlines()
    main(["demo", "--pause", "0", "hello\tthere"])
    capsys.readouterr()

    assert main(["runs"]) == 0
    head, newest, oldest = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["RUN", "WHEN", "MODEL"]
    assert newest.endswith("hello\ufffdthere")
    assert oldest.endswith("book a table at 7pm if open.")
    main(["runs", "--json", "-n", "2"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["tools"], row["repairs"], row["degraded"]) for row in rows] == [
        (0, 0, 0),
        (2, 1, 0),
    ]
    assert all(row["ms"] > 0 and row["finished"] for row in rows)
    assert [row["model"] for row in rows] == ["demo/toolbridge-demo"] * 2
    assert "demo/toolbridge-demo" in newest

    id = rows[1]["id"]
    assert main(["show", id]) == 0
    shown = capsys.readouterr().out
    assert id in shown
    for label in ("O1 Action", "T1 places.search", "T2 bookings.create", "R1 AssistantReply"):
        assert re.search(rf"{re.escape(label)} +\|.*█", shown)
    assert main(["show", "--json", id[:12]]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == id

    assert main(["replay", id, "--now", "--json"]) == 0
    again = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(e["event"], e["data"]) for e in again] == [
        (e["event"], e["data"]) for e in map(json.loads, first)
    ]
    assert main(["replay", "last"]) == 0
    assert "done" in capsys.readouterr().out


def test_a_run_without_metrics_is_listed_as_running(home, capsys):
    folder = home / "state" / "toolbridge" / "runs" / "run_00000000000000aa"
    folder.mkdir(parents=True)
    (folder / "frames.ndjson").write_text(json.dumps(FRAMES[0]))
    assert main(["runs"]) == 0
    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[3:] == ["running", "0", "0", "0"]
    assert main(["runs", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["model"], row["ms"], row["finished"], row["prompt"]) == ("", None, False, "")


def test_a_replay_keeps_the_pace_of_its_run(home, capsys):
    folder = home / "state" / "toolbridge" / "runs" / "run_00000000000000aa"
    folder.mkdir(parents=True)
    frames = [{**frame, "ms": at * 10_000.0} for at, frame in enumerate(FRAMES)]
    (folder / "frames.ndjson").write_text("\n".join(map(json.dumps, frames)))
    began = time.monotonic()
    assert main(["replay", "00", "--speed", "200"]) == 0
    assert 0.4 < time.monotonic() - began < 45  # at its own speed it takes more than 90 s
    assert "\x1b" not in capsys.readouterr().out
    assert main(["replay", "00", "--speed", "0"]) == 2
    assert main(["show", "00"]) == 0
    assert "running" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["run_ffffffffffffffff", "../../etc", "last"])
@pytest.mark.parametrize("command", ["show", "replay"])
def test_a_run_that_is_not_there_is_said_to_be_so(home, capsys, command, name):
    assert main([command, name]) == 1
    assert "run" in capsys.readouterr().err


def test_an_id_that_may_be_two_names_both(home, capsys):
    for last in "ab":
        folder = home / "state" / "toolbridge" / "runs" / f"run_00000000000000a{last}"
        folder.mkdir(parents=True)
        (folder / "frames.ndjson").write_text("")
    assert main(["show", "0000"]) == 1
    assert "run_00000000000000aa" in capsys.readouterr().err
    assert main(["replay", "00000000000000ab"]) == 1, "it did not come to its end"


def test_the_axis_is_as_wide_as_the_terminal_and_bars_are_as_long_as_things_took():
    rows = rows_of(recorded_events(FRAMES))
    assert [(row.kind, row.start, row.end) for row in rows] == [
        ("text", 1.0, 2.0), ("object", 3.0, 50.0), ("tool", 51.0, 51.0), ("error", 99.0, 99.0),
    ]  # fmt: skip
    for width in (60, 80, 120):
        lines = list(draw(rows, width))
        assert all(len(line) <= width for line in lines)
        bars = [line.count("█") for line in lines[1:]]
        assert bars[1] == max(bars) > width // 10
        assert bars[0] == bars[2] == bars[3] == 1
    assert "(not ended)" in lines[3]
    assert "\x1b" not in "".join(lines)


def test_every_kind_of_event_has_its_line():
    written: list[str] = []
    trace = Trace(written.append, colour=False)
    told = [
        fe.ResultBegin("R", "Answer"),
        fe.ResultDelta("R", '{"a":'),
        fe.ResultDelta("R", "1}"),
        fe.ResultEnd("R", 7),
        fe.RunToolCall("T1", "look", {"at": 1}, True),
        fe.ToolResult("T1", "look", [2], True),
        fe.RunToolCall("T2", "look", {}),
        fe.ToolResult("T2", "look", None),
        fe.RunError("aborted", "enough", "T2"),
    ]
    for ms, event in enumerate(told):
        trace.write(ms, event)
    trace.note(9, "no data for 3 s")
    assert "".join(written).splitlines() == [
        '       0 ms  result  R Answer {"a":1}',
        "       3 ms  result  R valid, 7 bytes",
        '       4 ms  tool    T1 look {"at":1}  (runs in the client)',
        "       5 ms  tool    T1 look → [2]  (cached)",
        "       6 ms  tool    T2 look {}",
        "       7 ms  tool    T2 look → null",
        "       8 ms  error   aborted (T2): enough",
        "       9 ms  pause   no data for 3 s",
    ]


def test_pieces_of_a_text_stay_in_their_line():
    written: list[str] = []
    trace = Trace(written.append, colour=False)
    for ms, event in recorded_events(FRAMES):
        trace.write(ms, event)
    trace.close()
    assert "".join(written).splitlines() == [
        "       1 ms  text    Hi",
        "                    there",
        "       3 ms  object  O1 Action {}",
        "      50 ms  object  O1 REPAIRED → 1",
        "      51 ms  tool    T1 t {}",
        "      99 ms  error   aborted: \ufffd[2Jbad",
        "     100 ms  done",
    ]


def test_a_dialect_that_replay_does_not_have_gets_the_nearest_one(home, capsys):
    assert main(["replay", "none.json", "--with", "dialect=hermes_jso"]) == 2
    error = capsys.readouterr().err
    assert "--with: there is no dialect 'hermes_jso'; use one of auto, off, " in error
    assert "did you mean `hermes_json`?" in error


def test_a_demo_whose_run_is_not_recorded_does_not_name_it(home, capsys, monkeypatch):
    (home / "f").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "f"))
    assert main(["demo", "--pause", "0"]) == 0
    assert "toolbridge show" not in capsys.readouterr().out
