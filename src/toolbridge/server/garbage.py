"""When Python's garbage collector runs in a gateway.

A request creates thousands of objects and no reference cycle (tests/server/test_cycles.py), so the
collector finds next to nothing, and stops every stream meanwhile: 10 to 30 ms for 50,000 objects of a
thousand streams. Structured streams and failures do have cycles. So the collector runs while no
request does, and otherwise only when more objects were created than running requests need.
"""

import gc

_THRESHOLD = 50_000
"""Objects that are new since the last collection, more than running requests have."""
_PER_REQUEST = 300
"""Objects of a running request; a stream has about 150."""
_WORTH = 20_000
"""New objects for which an idle gateway runs the collector."""


class _Policy:
    """Whether this process is a gateway, not one that runs a gateway beside other things."""

    applies = False


def spare_start() -> None:
    """Let the collector run from now on, and never on the objects that exist now.

    The few cycles among the objects of the start are not searched for: that would take a tenth of
    the time of the start.
    """
    gc.freeze()
    gc.set_threshold(_THRESHOLD, 10, 10)
    gc.enable()
    _Policy.applies = True


def collect_when_idle(running: int) -> None:
    """Run the collector if no request is running, else adapt its threshold; called ten times a second."""
    if not _Policy.applies:
        return
    gc.set_threshold(_THRESHOLD + _PER_REQUEST * running, 10, 10)
    if not running and gc.get_count()[0] >= _WORTH:
        gc.collect(1)
