"""Commands of the command line, run in the process of the test: starting Python costs more than they do.

What only a process can show (signals, pipes that close, locks, a gateway that serves) starts one
with `python -m toolbridge`.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple, TextIO

import pytest

from toolbridge.cli import main


class Finished(NamedTuple):
    """The result of a command, with the field names of `subprocess.CompletedProcess`."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run_command(
    env: Mapping[str, str], *args: str, given: bytes = b"", cwd: Path | None = None
) -> Finished:
    """Run a command with this environment and working directory, and `given` as its input.

    Environment, directory and standard streams belong to the whole process: nothing else may run
    beside the command that depends on them.
    """
    with ExitStack() as stack:
        given_stream, out, err = (stack.enter_context(_stream(it)) for it in (given, b"", b""))
        changed = stack.enter_context(pytest.MonkeyPatch.context())
        for name in os.environ.keys() - env.keys():
            changed.delenv(name)
        for name, value in env.items():
            changed.setenv(name, value)
        if cwd is not None:
            changed.chdir(cwd)
        for name, stream in (("stdin", given_stream), ("stdout", out), ("stderr", err)):
            changed.setattr(sys, name, stream)
        # Warnings go to standard error and not to pytest; what a command sets up ends with it.
        changed.setattr(logging.root, "handlers", [])
        payments = logging.getLogger("toolbridge.node")
        stack.callback(payments.setLevel, payments.level)
        changed.setattr(payments, "handlers", [])
        changed.setattr(payments, "propagate", payments.propagate)
        return Finished(_status(args), _written(out), _written(err))


async def run_beside(env: Mapping[str, str], *args: str) -> tuple[int, str, str]:
    """Run a command in a thread, beside the servers of an async test; return its status and output."""
    async with asyncio.timeout(120):
        done = await asyncio.to_thread(run_command, env, *args)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def _status(args: tuple[str, ...]) -> int:
    try:
        return main(list(args))
    except SystemExit as left:  # argparse
        return left.code if isinstance(left.code, int) else 1


def _stream(content: bytes) -> TextIO:
    """Return a file, because commands write to file descriptors too."""
    file = TemporaryFile("w+", encoding="utf-8", newline="\n")  # noqa: SIM115
    file.buffer.write(content)
    file.seek(0)
    return file


def _written(file: TextIO) -> bytes:
    file.flush()
    file.buffer.seek(0)
    return file.buffer.read()
