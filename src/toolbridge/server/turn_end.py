"""Work that is done once for all requests of a turn of the event loop."""

import asyncio
from collections.abc import Callable


class TurnEnd:
    """Calls a function after the callbacks that are ready now, however often it is asked to."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._due = False

    def soon(self) -> None:
        """Call the function once, after what the event loop does now."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._due = False
        self._work()
