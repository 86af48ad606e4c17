"""Stop the gateway that runs in the background."""

import argparse

from toolbridge.cli import state


def arguments(_: argparse.ArgumentParser) -> None:
    pass


def run(_: argparse.Namespace) -> int:
    running = state.find()
    if running is None:
        print("no gateway runs in the background")
        return 0
    if state.stop(running):
        print(f"stopped (pid {running.pid})")
    else:
        print(f"killed (pid {running.pid}): it did not stop within {10 + running.grace:g} s")
    return 0
