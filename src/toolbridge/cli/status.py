"""Tell whether a gateway runs in the background, and what it serves."""

import argparse

from toolbridge.cli import state


def arguments(_: argparse.ArgumentParser) -> None:
    pass


def run(_: argparse.Namespace) -> int:
    running = state.find()
    if running is None:
        print(
            "toolbridge does not run in the background; `toolbridge serve --background` starts it"
        )
        return 3
    health = state.healthy(running.url)
    if health is None:
        print(f"toolbridge (pid {running.pid}) does not answer at {running.url}")
        return 4
    print(f"toolbridge runs at {running.url} (pid {running.pid}), model {health.get('model')}")
    return 0
