"""What a process holds: tasks, threads and open files, to see that nothing stays behind."""

import asyncio
import gc
import threading
from contextlib import asynccontextmanager
from pathlib import Path

OPEN = Path("/proc/self/fd")


def _files() -> int:
    return len(list(OPEN.iterdir())) if OPEN.is_dir() else 0


def _threads() -> set[threading.Thread]:
    """Return the threads that somebody started; the loop's own workers come as it likes."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}


def _held() -> tuple[set, set, int]:
    return set(asyncio.all_tasks()), _threads(), _files()


@asynccontextmanager
async def nothing_left():
    """Check that what was held before is held afterwards, and nothing else."""
    gc.collect()
    gc.freeze()  # a collection inside looks only at what was made inside
    before = _held()
    yield
    for _ in range(200):  # the other side of a connection needs a moment to notice
        after = _held()
        if after[0] <= before[0] and after[1] <= before[1] and after[2] <= before[2]:
            return
        await asyncio.sleep(0.01)
    assert after[0] <= before[0], "tasks"
    assert after[1] <= before[1], "threads"
    assert after[2] <= before[2], "files"
