"""The plugin that runs the suite in forks, driven from outside with small suites of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(folder, *options):
    command = [sys.executable, "-m", "pytest", "-p", "tests.forked_workers", "-p", "no:randomly"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder), *options, str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


def write(folder, text, name="test_small.py"):
    (folder / name).write_text(text)


def lines(file):
    return sorted(file.read_text().split())


def test_each_test_runs_once_and_failures_have_their_own_output(tmp_path):
    write(tmp_path, f"""
import os, pytest
@pytest.mark.parametrize("n", range(200))
def test_it(n, tmp_path):
    print("output of", n)
    (tmp_path / "own").write_text("")
    with open({str(tmp_path / "ran")!r}, "a") as file:
        file.write(f"{{n}}\\n")
    assert n not in (3, 150)
@pytest.mark.skip(reason="on purpose")
def test_skipped(): ...
""")  # fmt: skip
    found = run(tmp_path, "--forks", "3", "-q", "-rs")
    assert found.returncode == 1
    assert "2 failed, 198 passed, 1 skipped" in found.stdout
    assert "on purpose" in found.stdout
    assert "[100%]" in found.stdout
    assert lines(tmp_path / "ran") == sorted(map(str, range(200)))
    for number in (3, 150):
        part = found.stdout.partition(f" test_it[{number}] _")[2]
        captured = part.partition("Captured stdout call")[2].splitlines()
        assert captured[1] == f"output of {number}"
        assert captured[2].startswith(("____", "===="))


def test_a_test_that_ends_its_process_fails_and_the_others_run(tmp_path):
    write(tmp_path, """
import os, pytest
@pytest.mark.parametrize("n", range(60))
def test_it(n):
    if n == 7:
        os.kill(os.getpid(), 9)
""")  # fmt: skip
    found = run(tmp_path, "--forks", "2", "-q")
    assert found.returncode == 1
    assert "1 failed, 59 passed" in found.stdout
    assert "ended with status -9 in this test" in found.stdout
    assert "test_it[7]" in found.stdout


def test_fixtures_of_a_module_live_until_its_last_test_in_the_worker(tmp_path):
    for name in ("test_a.py", "test_b.py"):
        write(tmp_path, f"""
import pytest
@pytest.fixture(scope="module")
def thing():
    yield
    with open({str(tmp_path / "ended")!r}, "a") as file:
        file.write("{name}\\n")
@pytest.mark.parametrize("n", range(50))
def test_it(n, thing): ...
""", name)  # fmt: skip
    found = run(tmp_path, "--forks", "1", "-q")
    assert "100 passed" in found.stdout
    assert lines(tmp_path / "ended") == ["test_a.py", "test_b.py"]


def test_the_run_stops_at_the_first_failure_on_request(tmp_path):
    write(tmp_path, f"""
import pytest, time
@pytest.mark.parametrize("n", range(40))
def test_it(n):
    with open({str(tmp_path / "ran")!r}, "a") as file:
        file.write(f"{{n}}\\n")
    time.sleep(0.05)
    assert n != 0
""")  # fmt: skip
    found = run(tmp_path, "--forks", "2", "-q", "-x")
    assert found.returncode == 1
    assert "stopping after 1 failures" in found.stdout
    assert len(lines(tmp_path / "ran")) < 20


def test_a_file_that_cannot_be_collected_is_an_error(tmp_path):
    write(tmp_path, "import nothing_of_this_name")
    found = run(tmp_path, "--forks", "2", "-q")
    assert found.returncode == 2
    assert "nothing_of_this_name" in found.stdout
