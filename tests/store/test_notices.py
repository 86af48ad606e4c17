"""Workers of one gateway report a change of the store once."""

import subprocess
import sys

from toolbridge.store.notices import WorkerNotices


def reported(capfd):
    return [line.removeprefix("toolbridge: ") for line in capfd.readouterr().err.splitlines()]


def test_one_worker_reports_each_change(tmp_path, capfd):
    workers = [WorkerNotices() for _ in range(3)]
    for worker in workers:
        worker.share(tmp_path)
    for fault, text in ((True, "away"), (False, "back"), (True, "away"), (False, "back")):
        for worker in workers:
            worker.report("redis", text, fault=fault)
        workers[0].report("ledger", f"ledger {text}", fault=fault)
        assert reported(capfd) == [text, f"ledger {text}"]


def test_a_process_without_workers_reports_everything(capfd):
    for _ in range(2):
        WorkerNotices().report("redis", "away", fault=True)
    assert reported(capfd) == ["away", "away"]


def test_what_a_worker_that_has_ended_reported_is_reported_again(tmp_path, capfd):
    program = (
        "import pathlib, sys\n"
        "from toolbridge.store.notices import worker_notices\n"
        "worker_notices.share(pathlib.Path(sys.argv[1]))\n"
        "worker_notices.report('redis', 'away', fault=True)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert reported(capfd) == ["away"]
    worker = WorkerNotices()
    worker.share(tmp_path)
    worker.report("redis", "away", fault=True)
    assert reported(capfd) == ["away"]


def test_a_directory_that_is_gone_hides_no_notice(tmp_path, capfd):
    worker = WorkerNotices()
    worker.share(tmp_path / "gone")
    worker.report("redis", "away", fault=True)
    assert reported(capfd) == ["away"]
