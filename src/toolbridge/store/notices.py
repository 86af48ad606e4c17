"""Notices on standard error, for example that the store cannot be used.

Standard error may be closed, an unread pipe, or a file on a full disk. A notice never blocks and
never raises, because it must not change an answer. All workers of a gateway meet the same faults of
the store; one of them reports each.
"""

import os
import traceback
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from toolbridge.core.redaction import Redactor
from toolbridge.store.log_output import standard_error


def notice(text: str) -> None:
    """Write one line to standard error, if there is one."""
    if (out := standard_error()) is not None:
        out.write(f"toolbridge: {text}\n")


class WorkerNotices:
    """The directory in which the workers of a gateway note what one of them has reported."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def share(self, folder: Path) -> None:
        """Use the directory of the gateway's workers from now on."""
        self._folder = folder

    def report(self, what: str, text: str, *, fault: bool) -> None:
        """Report that `what` is away, or with `fault` false that it is back.

        It is left out if another worker that runs has reported the same.
        """
        if self._folder is None or self._is_first(self._folder, what, fault=fault):
            notice(text)

    def _is_first(self, folder: Path, what: str, *, fault: bool) -> bool:
        name = blake2b(what.encode("utf-8", "replace"), digest_size=8).hexdigest()
        mine, opposite = (
            f"{name}.{'away' if fault else 'back'}",
            f"{name}.{'back' if fault else 'away'}",
        )
        with suppress(OSError):  # a full disk: each worker reports it
            (folder / opposite).unlink(missing_ok=True)
            if _is_of_dead(folder / mine):
                (folder / mine).unlink(missing_ok=True)
            try:
                with (folder / mine).open("x") as file:
                    file.write(str(os.getpid()))
            except FileExistsError:
                return False
        return True


def _is_of_dead(mark: Path) -> bool:
    """Return whether a worker that has ended wrote a mark."""
    try:
        os.kill(int(mark.read_text() or os.getpid()), 0)  # it is empty while it is written
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False
    return False


worker_notices = WorkerNotices()


def report_fault(error: BaseException, redactor: Redactor) -> None:
    """Write the traceback of an internal error, with the secrets in its message masked."""
    trace = "".join(traceback.format_tb(error.__traceback__))
    notice(redactor.text(f"internal error:\n{trace}{type(error).__name__}: {error}"))
