"""Says on standard error that something cannot be kept, and never fails for it.

Standard error may be closed, a pipe that nobody reads, or a file on a full disk. Keeping things is a
convenience, and so is saying that it failed: neither may change an answer.
"""

import traceback

from toolbridge.core.redaction import Redactor
from toolbridge.store.log_output import standard_error


def notice(text: str) -> None:
    """Write one line to standard error, if there is one."""
    if (out := standard_error()) is not None:
        out.write(f"toolbridge: {text}\n")


def report_fault(error: BaseException, redactor: Redactor) -> None:
    """Write where a fault of ours happened, without secrets in its message."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    notice(redactor.text(f"a fault of toolbridge's own:\n{frames}{type(error).__name__}: {error}"))
