"""The signals of a running gateway.

SIGTERM and SIGINT stop it, SIGHUP reads the configuration again, SIGUSR2 replaces the process. A
terminal that is closed sends SIGHUP as well; a gateway that was started on it then stops.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

OnSignal = Callable[[int, FrameType | None], None]

HANGUP: int | None = getattr(signal, "SIGHUP", None)
REPLACE: int | None = getattr(signal, "SIGUSR2", None)
"""Windows has neither."""


@contextmanager
def handled(stop: OnSignal, reload: OnSignal, replace: OnSignal) -> Iterator[None]:
    """Call these functions at signals; restore the former handlers at the end."""
    handlers: dict[int, OnSignal] = {signal.SIGINT: stop, signal.SIGTERM: stop}
    if HANGUP is not None:
        handlers[HANGUP] = reload if _outlives_terminal() else _or_stop(reload, stop)
    if REPLACE is not None:
        handlers[REPLACE] = replace
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _outlives_terminal() -> bool:
    """Whether the process was started with `nohup`, or without a terminal."""
    ignored = HANGUP is not None and signal.getsignal(HANGUP) is signal.SIG_IGN
    return ignored or not any(map(_is_terminal, range(3)))


def _or_stop(reload: OnSignal, stop: OnSignal) -> OnSignal:
    terminals = [number for number in range(3) if _is_terminal(number)]

    def decide(number: int, frame: FrameType | None) -> None:
        # After a hangup the descriptor is still open, but is no terminal any more.
        alive = any(map(_is_terminal, terminals))
        (reload if alive else stop)(number, frame)

    return decide


def _is_terminal(descriptor: int) -> bool:
    with suppress(OSError):
        return os.isatty(descriptor)
    return False
