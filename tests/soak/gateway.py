"""The gateway under test, in a process of its own; SIGUSR1 makes it report what it holds."""

import asyncio
import gc
import json
import signal
import sys
from pathlib import Path

from toolbridge.cli import main


def report(*_: object) -> None:
    """Write the number of tasks and open files to standard output."""
    gc.collect()
    tasks = [str(task.get_coro()) for task in asyncio.all_tasks()]
    held = {
        "tasks": len(tasks),
        "files": len([*Path("/proc/self/fd").iterdir()]),
        "names": tasks[:20],
    }
    print("HELD " + json.dumps(held), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, report)
    sys.exit(main(["serve", *sys.argv[1:]]))
