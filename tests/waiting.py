"""Waiting for what happens beside a test: for the thing itself, never for a time.

The limit is for a hang. It is far above what a busy machine needs, and no test measures speed with it.
"""

import asyncio
from collections.abc import Callable

HANG = 60.0


async def until(holds: Callable[[], object], wait: float = HANG) -> None:
    """Return as soon as `holds()` is true."""
    end = asyncio.get_running_loop().time() + wait
    while not holds():
        assert asyncio.get_running_loop().time() < end, "it did not happen"
        await asyncio.sleep(0.005)
