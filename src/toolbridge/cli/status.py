"""Show the gateway that runs in the background, and its default model."""

import argparse

from toolbridge.cli import state


def arguments(_: argparse.ArgumentParser) -> None:
    pass


def run(_: argparse.Namespace) -> int:
    running = state.find()
    if running is None:
        print("no gateway runs in the background; start one with `toolbridge serve --background`")
        return 3
    health = state.healthy(running.url)
    if health is None:
        print(
            f"the gateway (pid {running.pid}) does not answer at {running.url}; stop it with "
            f"`toolbridge stop`, and see {state.log_file()}"
        )
        return 4
    print(f"a gateway runs at {running.url} (pid {running.pid}), model {health.get('model')}")
    passed_over = health.get("passed_over")
    for provider, why in passed_over.items() if isinstance(passed_over, dict) else ():
        print(f"  {provider} is passed over in chains: {why}")
    return 0
