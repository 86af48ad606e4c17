"""The counters of workers are summed, also those of workers that have ended."""

import os
from collections import Counter

import msgspec

from toolbridge.server.worker_metrics import WorkerMetrics, settle_ended

ASKED = ("requests", (("api", "ollama"),))
COST = ("cost", ())


def rows(counts: dict) -> bytes:
    return msgspec.json.encode([(name, labels, n) for (name, labels), n in counts.items()])


def test_the_counters_of_the_others_are_summed_without_ones_own(tmp_path):
    metrics = WorkerMetrics(tmp_path)
    assert metrics.others() == Counter()
    metrics.write(Counter({ASKED: 100}))
    assert metrics.others() == Counter()
    (tmp_path / "1.json").write_bytes(rows({ASKED: 2, COST: 0.25}))
    (tmp_path / "2.json").write_bytes(rows({ASKED: 3}))
    (tmp_path / "3.json").write_bytes(b"")  # it has just begun
    assert metrics.others() == Counter({ASKED: 5, COST: 0.25})


def test_counters_are_written_when_they_have_changed(tmp_path):
    metrics = WorkerMetrics(tmp_path)
    file = tmp_path / f"{os.getpid()}.json"
    metrics.write(Counter({ASKED: 1}))
    assert msgspec.json.decode(file.read_bytes()) == [["requests", [["api", "ollama"]], 1]]
    file.unlink()
    metrics.write(Counter({ASKED: 1}))
    assert not file.exists()
    metrics.write(Counter({ASKED: 1, COST: 0.0}))  # a new name, although its value is zero
    assert file.exists()


def test_the_counters_of_a_worker_that_ended_stay_in_the_sum(tmp_path):
    metrics = WorkerMetrics(tmp_path)
    for pid, asked in ((1, 2), (2, 3)):
        (tmp_path / f"{pid}.json").write_bytes(rows({ASKED: asked}))
        settle_ended(tmp_path, pid)
        assert not (tmp_path / f"{pid}.json").exists()
    settle_ended(tmp_path, 3)  # it has written nothing
    assert metrics.others() == Counter({ASKED: 5})
