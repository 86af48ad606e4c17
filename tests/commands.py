"""Commands of the command line, run in the process of the test: starting Python costs more than they do.

What only a process can show (signals, pipes that close, locks, a gateway that serves) starts one
with `python -m toolbridge`.
"""

import asyncio
import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

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
    out, err = _stream(), _stream()
    with pytest.MonkeyPatch.context() as changed:
        for name in os.environ.keys() - env.keys():
            changed.delenv(name)
        for name, value in env.items():
            changed.setenv(name, value)
        if cwd is not None:
            changed.chdir(cwd)
        for name, stream in (("stdin", _stream(given)), ("stdout", out), ("stderr", err)):
            changed.setattr(sys, name, stream)
        status = _status(args)
    return Finished(status, _written(out), _written(err))


async def run_beside(env: Mapping[str, str], *args: str) -> tuple[int, str, str]:
    """Run a command in a thread, beside the servers of an async test; return its status and output."""
    async with asyncio.timeout(120):
        done = await asyncio.to_thread(run_command, env, *args)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def _status(args: tuple[str, ...]) -> int:
    try:
        return main(list(args))
    except SystemExit as left:  # argparse
        assert isinstance(left.code, int)
        return left.code


def _stream(content: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), "utf-8")


def _written(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    return written.getvalue()
