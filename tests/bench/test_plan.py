"""Scenarios are selected by a part of their names; some are measured in processes of their own."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from bench import cycles, plan, run
from bench.plan import New, names, unknown


@pytest.mark.parametrize("only", ["", "JSON", "stall, 48 KB", "slow readers", "workers", "start"])
def test_a_part_of_a_name_selects(only):
    assert unknown(only, ["gateway"]) == ""


def test_a_name_of_one_of_the_parts_is_enough():
    assert unknown("first chunk", ["gateway", "peers"]) == ""
    assert unknown("first chunk", ["gateway"])


def test_a_text_that_selects_nothing_is_answered_with_the_names():
    said = unknown("json, plane", ["gateway"])
    assert said.startswith('no scenario contains "json, plane"; the nearest is "JSON, plain", of ')
    assert all(f'"{name}"' in said for name in names("gateway"))


def test_a_run_of_nothing_is_an_error_of_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(run.native, "missing", str)
    monkeypatch.setattr(run.native, "end_servers_on_sigterm", lambda: None)
    monkeypatch.setattr(run.sys, "argv", ["run", "--only", "nosuchscenario"])
    with pytest.raises(SystemExit) as ended:
        run.main()
    assert ended.value.code == 2
    assert 'no scenario contains "nosuchscenario"' in capsys.readouterr().err


def test_the_cases_of_the_simulation_are_quoted(monkeypatch, capsys):
    monkeypatch.setattr(cycles.native, "end_servers_on_sigterm", lambda: None)
    monkeypatch.setattr(cycles.sys, "argv", ["cycles", "stream,"])
    with pytest.raises(SystemExit) as ended:
        cycles.main()
    assert ended.value.code == 2
    assert '"stream", "JSON, 15 tools", "stream, 15 tools"' in capsys.readouterr().err


def test_slow_readers_have_new_processes_in_each_round(monkeypatch):
    seen = []

    @contextmanager
    def running(server):
        seen.append(f"start {server.name} {server.number}")
        yield [server]
        seen.append(f"end {server.name} {server.number}")

    def create(name):
        return lambda: SimpleNamespace(name=name, number=len(seen), path="/", expect="")

    def scenario(_mock, target, _scale):
        seen.append(target.name)
        return {"growth_mb": 2.0, "bad": 0}

    monkeypatch.setattr(plan, "running", running)
    new = [New(name, create(name)) for name in ("nginx", "toolbridge")]
    size = plan.Size(11, 5, 2, 1, plan.Scale())
    monkeypatch.setattr(plan, "interleaved", once_per_round)
    found = plan.in_new_processes(None, new, "ollama", scenario, size)
    assert found["toolbridge"] == {"growth_mb": 2.0, "bad": 0}
    started = [line for line in seen if line.startswith("start")]
    assert len(set(started)) == 4
    assert [line.partition(" ")[0] for line in seen[::3]] == ["start"] * 4, "one after the other"


def once_per_round(targets, measure, count):
    """Do what `interleaved` does where the host never takes the processor."""
    return {target.name: [measure(target, number) for number in range(count)] for target in targets}
