"""Replace the gateway in the background by a new process; no connection is refused.

The new process gets the listening socket. The old one finishes its running requests, for up to
`restart_grace` seconds.
"""

import argparse

from toolbridge.cli import state
from toolbridge.cli.processes import LOCAL_WAIT
from toolbridge.core.errors import ToolbridgeError
from toolbridge.server import signals


def arguments(_: argparse.ArgumentParser) -> None:
    pass


def run(_: argparse.Namespace) -> int:
    if signals.REPLACE is None:
        raise ToolbridgeError("this system has no SIGUSR2; stop the gateway and start it again")
    running = state.find()
    if running is None:
        print("no gateway runs in the background; start one with `toolbridge serve --background`")
        return 3
    now = state.ask(running, signals.REPLACE, LOCAL_WAIT, replace=True)
    if now is None or now.fault:
        fault = now.fault if now else "the new process did not serve in time"
        print(f"the gateway (pid {running.pid}) goes on: {fault}; see {state.log_file()}")
        return 1
    print(f"the gateway at {now.url} was replaced (pid {running.pid} → {now.pid})")
    return 0
