"""Ctrl-C while a command starts: no traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTS = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, {handler})
sys.meta_path.insert(0, Interrupts())
"""
SCRIPT = [str(Path(sys.executable).with_name("toolbridge"))]
MODULE = [sys.executable, "-m", "toolbridge"]


def interrupted(tmp_path, command, name, handler="signal.default_int_handler"):
    """Run `command` with Ctrl-C at the moment at which it imports the module `name`."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS.format(name=name, handler=handler))
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [SCRIPT, MODULE], ids=["script", "module"])
@pytest.mark.parametrize("name", ["toolbridge.core.errors", "toolbridge.cli.parser"])
def test_ctrl_c_while_the_package_is_imported_ends_the_process(tmp_path, command, name):
    done = interrupted(tmp_path, [*command, "--version"], name)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("command", [SCRIPT, MODULE], ids=["script", "module"])
def test_ctrl_c_while_a_command_is_imported_is_status_130(tmp_path, command):
    done = interrupted(tmp_path, [*command, "models"], "toolbridge.cli.models")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_that_a_shell_ignores_stays_ignored(tmp_path):
    done = interrupted(tmp_path, [*MODULE, "--version"], "toolbridge.core.errors", "signal.SIG_IGN")
    assert done.returncode == 0
    assert done.stdout.startswith("toolbridge ")


@pytest.mark.parametrize("given", [["-c", "import toolbridge"], ["-m", "toolbridge.version"]])
def test_a_program_that_uses_the_library_keeps_its_handler(tmp_path, given):
    done = interrupted(tmp_path, [sys.executable, *given], "toolbridge.core.errors")
    assert "KeyboardInterrupt" in done.stderr
