"""Says on standard error that something cannot be kept, and never fails for it.

Standard error may be closed, a pipe that nobody reads any more, or a file on a full disk. Keeping
things is a convenience, and so is saying that it failed: neither may change an answer.
"""

import sys
import traceback
from contextlib import suppress

from toolbridge.core.redaction import Redactor


def notice(text: str) -> None:
    """Write one line to standard error, if there is one."""
    out = sys.stderr
    if out is None:  # the process was started without one
        return
    with suppress(OSError, ValueError):  # its disk is full, its reader has left, or it was closed
        out.write(f"toolbridge: {text}\n")
        out.flush()


def report_fault(error: BaseException, redactor: Redactor) -> None:
    """Write where a fault of ours happened, without secrets in its message."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    notice(redactor.text(f"a fault of toolbridge's own:\n{frames}{type(error).__name__}: {error}"))
