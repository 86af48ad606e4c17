"""The guard fails above 10 %, compares ratios on equal terms only, and its baseline is complete."""

import json

import pytest

from bench import calls, guard, machine
from bench.targets import UPSTREAMS

BASELINE = json.loads(guard.BASELINE.read_text("utf-8"))


def test_a_figure_more_than_a_tenth_above_the_baseline_is_reported():
    lines = guard.worse({"a": 111, "b": 110, "c": 10}, {"a": 100, "b": 100, "c": 100}, "calls")
    assert lines == ["a: 100 → 111 calls, 11 % more"]


def test_nearly_no_calls_may_be_measured_as_none():
    assert guard.worse({"a": 0.15}, {"a": 0.0}, "calls") == []
    assert guard.worse({"a": 1.0}, {"a": 0.0}, "calls") == ["a: 0.0 → 1.0 calls"]


def test_a_figure_that_is_no_longer_measured_is_reported():
    assert guard.worse({}, {"a": 100}, "calls") == ["a: not measured; the baseline has 100 calls"]


def test_the_check_fails_and_names_the_way_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(guard, "BASELINE", tmp_path / "baseline.json")
    guard.save({"a": 100.0}, {"r": 2.0})
    assert guard.check({"a": 109.0}, {"r": 2.1}) == 0
    assert guard.check({"a": 100.0}, {"r": 2.3}) == 1
    assert "make bench-baseline" in capsys.readouterr().out
    assert guard.check({"a": 120.0}, {}) == 1


def test_a_baseline_of_calls_alone_keeps_the_ratios(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "BASELINE", tmp_path / "baseline.json")
    guard.save({"a": 100.0}, {"r": 2.0})
    guard.save({"a": 90.0}, {})
    saved = json.loads(guard.BASELINE.read_text("utf-8"))
    assert saved["calls"] == {"a": 90.0}
    assert saved["ratios to nginx"] == {"r": 2.0}


def test_a_baseline_of_calls_alone_keeps_what_the_ratios_were_measured_with(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "BASELINE", tmp_path / "baseline.json")
    guard.save({"a": 100.0}, {"r": 2.0})
    assert guard.not_comparable() == []
    here = machine.here()
    monkeypatch.setattr(machine, "here", lambda: here | {"processor": "another"})
    guard.save({"a": 90.0}, {})
    assert guard.not_comparable() == [
        f"processor: {here['processor']} in the baseline, another here"
    ]


def run_guard(monkeypatch, found_calls):
    def never():
        raise AssertionError("ratios were measured")

    monkeypatch.setattr(guard.sys, "argv", ["guard"])
    monkeypatch.setattr(guard.native, "missing", str)
    monkeypatch.setattr(guard.native, "end_servers_on_sigterm", lambda: None)
    monkeypatch.setattr(guard.calls, "counted", lambda: found_calls)
    monkeypatch.setattr(guard, "ratios", never)
    return guard.main()


@pytest.mark.parametrize("then", [{"build": "another build"}, {}])
def test_ratios_of_another_build_are_not_compared_and_calls_are(
    tmp_path, monkeypatch, capsys, then
):
    monkeypatch.setattr(guard, "BASELINE", tmp_path / "baseline.json")
    old = {"python": "3.11", "calls": {"a": 100}, "ratios to nginx": {"r": 1}}
    measured = {guard.MEASURED_WITH: machine.here() | then} if then else {}
    guard.BASELINE.write_text(json.dumps(old | measured), "utf-8")
    assert run_guard(monkeypatch, {"a": 105.0}) == 0
    printed = capsys.readouterr().out
    assert "# ratios to nginx are not compared" in printed
    was = then.get("build", "not known")
    assert f"build: {was} in the baseline, {machine.build()} here" in printed
    assert run_guard(monkeypatch, {"a": 120.0}) == 1


def test_the_build_of_python_is_read_from_its_configuration():
    assert machine.described("'--enable-shared' '--enable-optimizations'") == "optimized build"
    assert machine.described("'--enable-shared'") == "plain build"
    assert machine.described("", debian=True) == "Debian's optimized build"


@pytest.mark.parametrize("api", UPSTREAMS)
def test_the_committed_baseline_is_complete(api):
    assert "make bench-baseline" in BASELINE["renew"]
    for case in calls.CASES:
        assert BASELINE["calls"][f"{api}: {case}: calls per request"] > 0
        if case.startswith("stream"):
            assert BASELINE["calls"][f"{api}: {case}: calls per delta"] >= 0
            assert BASELINE["calls"][f"{api}: {case}: calls per chunk apart"] > 0
    assert {f"{api}: {name}" for name in guard.GUARDED} <= BASELINE["ratios to nginx"].keys()
