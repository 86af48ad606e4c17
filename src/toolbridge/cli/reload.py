"""Make the gateway in the background read its configuration again."""

import argparse

from toolbridge.cli import state
from toolbridge.core.errors import ToolbridgeError
from toolbridge.server import signals

_WAIT = 30.0


def arguments(_: argparse.ArgumentParser) -> None:
    pass


def run(_: argparse.Namespace) -> int:
    if signals.HANGUP is None:
        raise ToolbridgeError("this system has no SIGHUP; stop the gateway and start it again")
    running = state.find()
    if running is None:
        print("no gateway runs in the background; send SIGHUP to one that runs elsewhere")
        return 3
    now = state.ask(running, signals.HANGUP, _WAIT)
    if now is None:
        print(
            f"the gateway (pid {running.pid}) did not read its configuration in {_WAIT:g} s; see "
            f"{state.log_file()}"
        )
        return 4
    if now.fault:
        print(f"the old configuration stays: {now.fault}")
        return 1
    print(f"the gateway at {now.url} (pid {now.pid}) has read its configuration")
    if now.unchanged:
        from toolbridge.server.reload import tell_unchanged

        print(f"not all changes are in use; {tell_unchanged(now.unchanged)}")
    return 0
