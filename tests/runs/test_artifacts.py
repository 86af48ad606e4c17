"""What is left of a run."""

import asyncio
import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from tests.waiting import until

from toolbridge.core.json import dump_bytes, loads
from toolbridge.core.redaction import Redactor
from toolbridge.runs import artifacts as module
from toolbridge.runs.artifacts import Artifacts
from toolbridge.runs.folders import Retention, list_runs, load_run, prune, run_folder, runs_root
from toolbridge.runs.frames import EventFrame
from toolbridge.runs.metrics import RunMetrics

RUN = "run_0123456789abcdef"
EVENTS = [
    ("text.delta", {"text": "Looking"}),
    ("json.begin", {"id": "O1", "schema": "Action"}),
    ("json.delta", {"id": "O1", "chunk": '{"mode":'}),
    ("json.end", {"id": "O1", "length": 8, "status": "healed", "value": {"mode": "book"}}),
    ("tool.call", {"id": "T1", "name": "places.search", "args": {"query": "pizza"}}),
    ("tool.result", {"id": "T1", "name": "places.search", "result": [], "cached": True}),
    ("tool.call", {"id": "T2", "name": "bookings.create", "args": {}}),
    ("tool.result", {"id": "T2", "name": "bookings.create", "result": {"error": {"code": "tool_failed"}}}),
    ("error", {"code": "tool_failed", "message": "no", "id": "T2"}),
    ("result.begin", {"id": "R1", "schema": "AssistantReply"}),
    ("result.end", {"id": "R1", "length": 0, "status": "degraded", "value": {"answer": ""}}),
    ("done", {}),
]  # fmt: skip


def ids(count):
    return [f"run_{n:016x}" for n in range(count)]


async def record(artifacts, run=RUN, events=EVENTS, **metrics):
    files = artifacts.open(run, {"prompt": "Find pizza", "headers": {"authorization": "Bearer x"}})
    for n, (event, data) in enumerate(events, 1):
        files.frames([(n, event, data)])
    files.tool({"id": "T1", "name": "places.search", "arguments": {"api_key": "sk_live_1"}})
    files.finish({"answer": "", "token": "abc"}, metrics)
    assert await artifacts.settled(60)
    return files


@pytest.mark.req("TF-48")
async def test_a_run_leaves_five_files_that_can_be_read_back(tmp_path):
    artifacts = Artifacts(tmp_path / "runs")
    await record(artifacts, model="demo")
    await artifacts.close()
    names = sorted(path.name for path in (tmp_path / "runs" / RUN).iterdir())
    assert names == [
        "frames.ndjson",
        "metrics.json",
        "prompt.json",
        "result.json",
        "tool_logs.json",
    ]
    run = load_run(tmp_path / "runs", RUN)
    assert [(frame["n"], frame["event"]) for frame in run.frames] == [
        (n, event) for n, (event, _) in enumerate(EVENTS, 1)
    ]
    assert run.frames[2]["data"] == EVENTS[2][1]
    assert run.prompt["prompt"] == "Find pizza"
    assert run.result["answer"] == ""
    assert run.metrics["model"] == "demo"
    [summary] = list_runs(tmp_path / "runs")
    assert (summary.id, summary.finished, summary.metrics) == (RUN, True, run.metrics)


@pytest.mark.req("TF-49", "TF-30")
async def test_metrics_tell_times_mends_and_tools(tmp_path):
    artifacts = Artifacts(tmp_path)
    await record(artifacts)
    await artifacts.close()
    run = load_run(tmp_path, RUN)
    metrics = run.metrics
    assert metrics["run"] == RUN
    assert 0 <= metrics["first_event_ms"] <= metrics["total_ms"] < 5000
    assert metrics["events"]["tool.call"] == 2
    assert (metrics["heals"], metrics["repairs"], metrics["degraded"]) == (1, 1, ["R1"])
    assert metrics["errors"] == {"tool_failed": 1}
    assert [(f["id"], f["kind"], f["schema"], f["status"]) for f in metrics["frames"]] == [
        ("O1", "json", "Action", "healed"), ("R1", "result", "AssistantReply", "degraded"),
    ]  # fmt: skip
    assert [(t["name"], t.get("code"), t.get("cached")) for t in metrics["tools"]] == [
        ("places.search", None, True), ("bookings.create", "tool_failed", None),
    ]  # fmt: skip
    assert metrics["tool_ms"]["count"] == 2
    assert set(metrics["frame_ms"]) == {"count", "p50", "p95", "max", "mean"}
    assert [frame["n"] for frame in run.frames if frame.get("degraded")] == [11]


@pytest.mark.req("TF-49")
def test_times_are_told_as_their_spread():
    measures = RunMetrics()
    for n, ms in enumerate([30.0, 10.0, 50.0, 20.0, 40.0]):
        id = {"id": f"T{n}", "name": "t"}
        measures.note(EventFrame(1000.0 * n, 2 * n, "tool.call", id))
        measures.note(EventFrame(1000.0 * n + ms, 2 * n + 1, "tool.result", {**id, "result": 1}))
    summary = measures.summary()
    assert summary["tool_ms"] == {"count": 5, "p50": 30.0, "p95": 50.0, "max": 50.0, "mean": 30.0}
    assert (summary["first_event_ms"], summary["total_ms"]) == (0.0, 4040.0)


@pytest.mark.req("TF-50")
async def test_no_file_holds_a_secret(tmp_path):
    artifacts = Artifacts(tmp_path, redactor=Redactor(["configured-key"]))
    events = [
        ("text.delta", {"text": "key sk_li"}),
        ("text.delta", {"text": "ve_12345 and configured-"}),
        ("text.delta", {"text": "key"}),
        ("done", {}),
    ]
    await record(artifacts, events=events, note="configured-key")
    await artifacts.close()
    written = b"".join(path.read_bytes() for path in (tmp_path / RUN).iterdir())
    for secret in (b"sk_li", b"ve_1", b"configured", b"Bearer x", b'"abc"'):
        assert secret not in written
    assert written.count(b"[redacted]") == 6


async def test_nobody_else_can_read_a_run(tmp_path):
    before = os.umask(0)
    try:
        artifacts = Artifacts(tmp_path / "state" / "runs")
        await record(artifacts)
        await artifacts.close()
    finally:
        os.umask(before)
    folder = tmp_path / "state" / "runs" / RUN
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


async def test_frames_are_on_the_disk_while_the_run_goes_on(tmp_path):
    artifacts = Artifacts(tmp_path)
    files = artifacts.open(RUN, {})
    files.frames([(1, "json.begin", {"id": "O1", "schema": "A"})])
    assert await artifacts.settled()
    run = load_run(tmp_path, RUN)
    assert ([frame["n"] for frame in run.frames], run.metrics) == ([1], None)
    [summary] = list_runs(tmp_path)
    assert not summary.finished
    await artifacts.close()


def test_a_killed_process_leaves_files_that_can_be_read(tmp_path):
    script = """
        import asyncio, os, signal, sys
        from pathlib import Path
        from toolbridge.runs.artifacts import Artifacts

        async def main():
            artifacts = Artifacts(Path(sys.argv[1]))
            files = artifacts.open("run_0123456789abcdef", {"prompt": "x"})
            n = 0
            while True:
                n += 1
                files.frames([(n, "tool.call", {"id": f"T{n}", "name": "x", "args": {"a": "b" * 500}})])
                if n == 300:
                    await artifacts.settled()
                    print("go", flush=True)
                await asyncio.sleep(0)

        asyncio.run(main())
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    run = load_run(tmp_path, RUN)
    assert run.prompt == {"prompt": "x"}
    assert len(run.frames) >= 300
    assert [frame["n"] for frame in run.frames] == list(range(1, len(run.frames) + 1))


def test_half_a_line_is_passed_over(tmp_path):
    folder = tmp_path / RUN
    folder.mkdir()
    (folder / "frames.ndjson").write_bytes(b'{"n":1}\n{"n":2}\n{"n":')
    (folder / "metrics.json").write_bytes(b"{")
    run = load_run(tmp_path, RUN)
    assert (run.frames, run.metrics, run.prompt) == ([{"n": 1}, {"n": 2}], None, None)
    assert list_runs(tmp_path)[0].metrics == {}


async def test_a_full_disk_is_said_once_and_holds_nobody_up(tmp_path, monkeypatch, capsys):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    artifacts = Artifacts(tmp_path)
    monkeypatch.setattr(module.os, "write", full)
    await record(artifacts)
    await record(artifacts, run=ids(2)[1])
    monkeypatch.undo()
    await record(artifacts, run=ids(3)[2])
    await artifacts.close()
    said = capsys.readouterr().err
    assert said.count("No space left on device") == said.count("\n") == 1
    assert load_run(tmp_path, ids(3)[2]).result == {"answer": "", "token": "[redacted]"}
    assert load_run(tmp_path, RUN).result is None


async def test_a_folder_that_is_removed_meanwhile_is_made_again(tmp_path, capsys):
    artifacts = Artifacts(tmp_path)
    files = artifacts.open(RUN, {"order": {}})
    await artifacts.settled()
    shutil.rmtree(run_folder(tmp_path, RUN).parent)
    files.frames([(1, "done", {})])
    files.finish({"a": 1})
    await artifacts.close()
    assert load_run(tmp_path, RUN).result == {"a": 1}
    assert capsys.readouterr().err == ""


async def test_a_place_that_cannot_be_written_is_said_once(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    artifacts = Artifacts(tmp_path / "file" / "runs")
    await record(artifacts)
    await artifacts.close()
    assert "Not a directory" in capsys.readouterr().err


async def test_a_disk_that_hangs_loses_events_and_no_time(tmp_path, capsys):
    artifacts = Artifacts(tmp_path, waiting=50)
    files = artifacts.open(RUN, {})
    let_go = threading.Event()
    artifacts.submit(lambda: let_go.wait(20) and None)
    started = time.monotonic()
    for n in range(1, 1001):
        files.frames([(n, "text.delta", {"text": "x\n"})])
    assert time.monotonic() - started < 10  # the disk hangs for 20 s
    assert not await artifacts.settled(0.05)
    assert files.lost >= 900
    let_go.set()
    await until(artifacts._work.empty)
    files.finish(None)
    await artifacts.close()
    assert load_run(tmp_path, RUN).metrics["lost_events"] == files.lost
    assert "too slow" in capsys.readouterr().err


async def test_nobody_waits_longer_than_they_want(tmp_path):
    artifacts = Artifacts(tmp_path)
    artifacts.open(RUN, {})
    let_go = threading.Event()
    artifacts.submit(lambda: let_go.wait(20) and None)
    assert not await artifacts.settled(0.05)
    let_go.set()
    assert await artifacts.settled()
    await artifacts.close()


class Odd:
    def __str__(self):
        raise RuntimeError("an object that cannot be shown")


async def test_one_run_s_trouble_does_not_stop_the_others(tmp_path, capsys):
    artifacts = Artifacts(tmp_path)
    files = artifacts.open(RUN, {})
    files.write("prompt", {"odd": Odd()})
    await record(artifacts)
    await artifacts.close()
    assert "object" in capsys.readouterr().err
    assert load_run(tmp_path, RUN).result is not None


async def test_the_loop_never_waits_for_the_disk(tmp_path, monkeypatch):
    real, writers = os.write, set()

    def write(descriptor, data):
        writers.add(threading.current_thread())
        return real(descriptor, data)

    monkeypatch.setattr(module.os, "write", write)
    artifacts = Artifacts(tmp_path)
    files = artifacts.open(RUN, {})
    for n in range(1, 21):
        files.frames([(n, "tool.call", {"id": str(n)})])
    await artifacts.close()
    assert writers
    assert threading.current_thread() not in writers
    assert len(load_run(tmp_path, RUN).frames) == 20


async def test_a_closed_house_has_written_all(tmp_path):
    artifacts = Artifacts(tmp_path)
    await artifacts.close()
    files = artifacts.open(RUN, {})
    for n in range(1, 5001):
        files.frames([(n, "text.delta", {"text": "word "})])
    files.finish({})
    await artifacts.close()
    assert len(load_run(tmp_path, RUN).frames) == 5000


@pytest.mark.parametrize(
    "run", ["", "..", "run_", "run_0123456789ABCDEF", f"../{RUN}", f"{RUN}/..", f"{RUN}\n", "/etc", "run_" + "g" * 16]
)  # fmt: skip
def test_only_the_id_of_a_run_names_a_folder(tmp_path, run):
    with pytest.raises(LookupError):
        run_folder(tmp_path, run)
    with pytest.raises(LookupError):
        load_run(tmp_path, run)
    with pytest.raises(LookupError):
        Artifacts(tmp_path).open(run, {})


def test_a_run_that_never_was_is_said(tmp_path):
    with pytest.raises(LookupError, match="there is no run"):
        load_run(tmp_path, RUN)
    assert list_runs(tmp_path / "none") == []


def test_a_link_is_no_run(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "metrics.json").write_text("{}")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / RUN).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LookupError):
        load_run(tmp_path / "runs", RUN)
    assert list_runs(tmp_path / "runs") == []
    everything = Retention(runs=0, bytes=0, seconds=0)
    assert prune(tmp_path / "runs", everything, busy=frozenset(), now=time.time() + 1e9) == []
    assert (tmp_path / "elsewhere" / "metrics.json").exists()


def shelf(root, count, size=100, *, finished=True):
    """Put runs on a shelf, each an hour older than the next."""
    now = time.time()
    for at, run in enumerate(ids(count)):
        folder = root / run
        folder.mkdir(parents=True)
        file = folder / ("metrics.json" if finished else "frames.ndjson")
        file.write_bytes(dump_bytes({"x": "y" * (size - 8)}))
        os.utime(file, (now - 3600 * (count - at),) * 2)
    return now


@pytest.mark.req("TF-48")
@pytest.mark.parametrize(
    ("retention", "left"),
    [
        (Retention(), [0, 1, 2, 3, 4]),
        (Retention(runs=2), [3, 4]),
        (Retention(runs=0), []),
        (Retention(bytes=350), [2, 3, 4]),
        (Retention(seconds=3600 * 2.5), [3, 4]),
    ],
)
def test_the_oldest_go_when_there_is_too_much(tmp_path, retention, left):
    now = shelf(tmp_path, 5)
    removed = prune(tmp_path, retention, busy=frozenset(), now=now)
    assert sorted(path.name for path in tmp_path.iterdir()) == [ids(5)[n] for n in left]
    assert len(removed) == 5 - len(left)


def test_what_is_under_way_stays(tmp_path):
    now = shelf(tmp_path / "done", 3)
    assert prune(tmp_path / "done", Retention(runs=0), busy=frozenset(ids(1)), now=now) == [
        ids(3)[2], ids(3)[1],
    ]  # fmt: skip
    now = shelf(tmp_path / "other", 3, finished=False)
    assert prune(tmp_path / "other", Retention(runs=0), busy=frozenset(), now=now - 1800) == [
        ids(3)[1], ids(3)[0],
    ]  # fmt: skip


def test_what_is_somebody_else_s_is_never_touched(tmp_path):
    now = shelf(tmp_path, 2)
    (tmp_path / ids(1)[0] / "notes.txt").write_text("mine")
    (tmp_path / ids(1)[0] / "sub").mkdir()
    (tmp_path / "run_photos").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "run_00000000000000ff").mkdir()
    prune(tmp_path, Retention(runs=0), busy=frozenset(), now=now)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    first = ids(1)[0]
    assert left == sorted(
        ["file", first, f"{first}/notes.txt", f"{first}/sub", "run_00000000000000ff", "run_photos"]
    )


async def test_a_run_that_ends_throws_old_ones_away(tmp_path):
    shelf(tmp_path, 5)
    artifacts = Artifacts(tmp_path, keep=3, pause=0)
    await record(artifacts)
    await artifacts.close()
    assert len(list_runs(tmp_path)) == 3
    assert list_runs(tmp_path)[0].id == RUN


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/toolbridge/runs"),
        ({"HOME": "/h"}, "/h/.local/state/toolbridge/runs"),
        ({}, "None"),
    ],
)
def test_runs_are_kept_in_the_state_folder(env, expected):
    assert str(runs_root(env)) == expected


async def test_a_file_is_never_seen_half_written(tmp_path):
    artifacts = Artifacts(tmp_path)
    files = artifacts.open(RUN, {"n": 0})
    await artifacts.settled()
    seen = set()
    for n in range(200):
        files.write("prompt", {"n": n, "x": "y" * 10_000})
        seen.add(loads((tmp_path / RUN / "prompt.json").read_bytes())["n"])
        await asyncio.sleep(0)
    await artifacts.close()
    assert len(seen) >= 1


@pytest.mark.req("TF-48")
async def test_one_run_is_bounded_and_says_what_is_missing(tmp_path):
    artifacts = Artifacts(tmp_path, retention=Retention(run_bytes=20_000))
    events = [("json.begin", {"id": "O1", "schema": "x" * 100})] * 1000 + [("done", {})]
    await record(artifacts, events=events)
    await artifacts.close()
    size = sum(path.stat().st_size for path in (tmp_path / RUN).iterdir())
    assert size < 24_000
    run = load_run(tmp_path, RUN)
    assert run.prompt["prompt"] == "Find pizza"
    assert run.metrics["left_out_bytes"] > 50_000
    assert [frame["n"] for frame in run.frames] == list(range(1, len(run.frames) + 1))


async def test_a_prompt_that_is_too_large_leaves_room_for_the_rest(tmp_path):
    artifacts = Artifacts(tmp_path, retention=Retention(run_bytes=20_000))
    files = artifacts.open(RUN, {"prompt": "x" * 30_000})
    files.frames([(1, "done", {})])
    files.finish({"answer": "1"})
    await artifacts.close()
    run = load_run(tmp_path, RUN)
    assert run.prompt == {"left_out_bytes": 30_013}
    assert (run.result, len(run.frames)) == ({"answer": "1"}, 1)
    assert run.metrics["left_out_bytes"] == 30_013


async def test_a_system_without_threads_left_keeps_nothing_and_goes_on(
    tmp_path, monkeypatch, capsys
):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    artifacts = Artifacts(tmp_path)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    files = artifacts.open(RUN, {})
    files.frames([(1, "done", {})])
    files.finish({})
    await artifacts.close()
    assert "can't start new thread" in capsys.readouterr().err
