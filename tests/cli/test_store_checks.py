"""What the banner and `toolbridge doctor` report about the state directory: the same, with a way out."""

import asyncio

from tests.commands import run_command

from toolbridge.cli.store_checks import check_state
from toolbridge.core.redaction import Redactor
from toolbridge.store.private_files import folder_fault
from toolbridge.store.sqlite import SqliteStore


def banner_lines(folder):
    store = SqliteStore(folder and folder / "toolbridge.sqlite", redactor=Redactor(), size=1000)
    return asyncio.run(check_state(store, folder))


def doctor(env):
    done = run_command(env, "doctor")
    return done.returncode, done.stdout.decode()


def test_without_a_home_the_banner_and_doctor_say_what_to_set(env):
    (line,) = banner_lines(None)
    status, shown = doctor({"PATH": env["PATH"], "OLLAMA_HOST": env["OLLAMA_HOST"]})
    what, _, to_do = line.partition("; ")
    assert to_do == "set HOME or XDG_STATE_HOME"
    assert f"BAD   {what}\n      → {to_do}\n" in shown
    assert (status, "free disk space" in shown) == (1, False)


def test_a_state_directory_that_cannot_be_used_is_a_problem_in_both(env, tmp_path):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "toolbridge"
    assert folder_fault(folder)
    (line,) = banner_lines(folder)
    status, shown = doctor(env | {"XDG_STATE_HOME": str(folder.parent)})
    assert f"BAD   {line}\n" in shown
    assert (status, "no problems found" in shown) == (1, False)


def test_a_directory_that_can_be_used_is_no_problem(env, tmp_path):
    assert banner_lines(tmp_path / "state") == []
    status, shown = doctor(env)
    assert (status, "ok    store: " in shown) == (0, True)
