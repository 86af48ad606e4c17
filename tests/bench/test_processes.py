"""CPU time and memory are those of a process with all of its children; absent peers are named."""

import subprocess
import sys
import textwrap

import pytest

from bench import native, peers
from bench.processes import CpuTime, HostTime, family, memory, own_memory

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
PARENT = """
    import subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
    print(child.stdout.readline().decode().strip(), flush=True)
    sys.stdin.read()
    child.kill()
"""
CHILD = """
    import sys, time
    held = bytearray(b"x" * 50_000_000)
    while time.process_time() < 0.5:
        pass
    print("done", flush=True)
    time.sleep(600)
"""


@linux
def test_what_a_child_uses_is_counted():
    program = [sys.executable, "-c", textwrap.dedent(PARENT), textwrap.dedent(CHILD)]
    parent = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert parent.stdout.readline() == b"done\n"
        assert len(family(parent.pid)) == 2
        used = CpuTime.now(parent.pid)
        assert used.since(CpuTime({}, 0.0)) >= 0.5e9
        assert used.since(used) == 0
        assert memory(parent.pid) > own_memory(parent.pid) > 50
    finally:
        parent.communicate()


def test_a_thread_that_has_ended_keeps_its_time():
    # schedstat no longer lists the thread "2"; the count of the process in ticks has its time.
    before = CpuTime({"1": 5_000_000, "2": 90_000_000}, 90_000_000.0)
    after = CpuTime({"1": 6_000_000}, 200_000_000.0)
    assert after.since(before) == 110_000_000


def test_what_the_host_took_is_a_share_of_the_time_of_all_cores():
    before = HostTime.read("cpu  100 0 50 800 10 0 5 35 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    assert before == HostTime(taken=35, whole=1000)
    after = HostTime.read("cpu  150 0 60 820 10 0 5 55 9 0\n")
    assert after.share_since(before) == 0.2
    assert after.share_since(after) == 0


def test_peers_that_cannot_be_installed_are_skipped_with_the_reason(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    monkeypatch.setattr(peers.sys, "executable", str(tmp_path / "no-python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(peers.started(1)) == []
    printed = capsys.readouterr().out
    assert "# LiteLLM: skipped: " in printed
    assert "# claude-code-router engine: skipped: node and npm are not installed" in printed


def test_a_system_without_epoll_or_a_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert native.missing()
    monkeypatch.setattr(native.sys, "platform", "darwin")
    assert "Linux only" in native.missing()
