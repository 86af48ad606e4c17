"""Notices on standard error, for example that the store cannot be used.

Standard error may be closed, an unread pipe, or a file on a full disk. A notice never blocks and
never raises, because it must not change an answer.
"""

import traceback

from toolbridge.core.redaction import Redactor
from toolbridge.store.log_output import standard_error


def notice(text: str) -> None:
    """Write one line to standard error, if there is one."""
    if (out := standard_error()) is not None:
        out.write(f"toolbridge: {text}\n")


def report_fault(error: BaseException, redactor: Redactor) -> None:
    """Write the traceback of an internal error, with the secrets in its message masked."""
    trace = "".join(traceback.format_tb(error.__traceback__))
    notice(redactor.text(f"internal error:\n{trace}{type(error).__name__}: {error}"))
