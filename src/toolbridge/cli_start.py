"""Ctrl-C while the command `toolbridge` is loaded.

Importing the package takes a tenth of a second before `cli.main` can catch `KeyboardInterrupt`. Until
then the signal ends the process itself, as it ends any other program, and there is no traceback. In
a program that imports the library, nothing changes.
"""

import os
import signal
import sys


def end_at_interrupt() -> None:
    """Let SIGINT end the process, if this is the command; a shell may have set it to be ignored."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_at_interrupt() -> None:
    """Let SIGINT raise `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command() -> bool:
    """Whether the process was started as `toolbridge` or `python -m toolbridge`."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119 -- loads less
    if program == "-m":
        return _module() == "toolbridge"
    return program.removesuffix(".exe") == "toolbridge"


def _module() -> str:
    """Return the name after `-m` on the command line of the interpreter."""
    given = sys.orig_argv
    at = given.index("-m") + 1 if "-m" in given else len(given)
    return given[at] if at < len(given) else ""


end_at_interrupt()
