"""Probe a model: solve scripted tasks in every tool mode, and print a report card.

The 24 tasks need one call, parallel calls, nested arguments, long content, no call, a call after a
result, output of a schema, or thinking; each is sent in the modes native, prompt and constrained.
The tools are never run. With --write, the best mode is written into the configuration file. The exit
status is 1 if there is no best mode: no answer is right, or the provider stopped the probe.
"""

import argparse
import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from toolbridge import trust
from toolbridge.cli import options
from toolbridge.cli.files import check_writable
from toolbridge.config import Config
from toolbridge.core.close_names import did_you_mean
from toolbridge.core.errors import ConfigError, MalformedRequest, ModelError
from toolbridge.core.json import JsonObject
from toolbridge.policy.tool_modes import ToolMode
from toolbridge.probe.card import Card, facts, failures, rows, table, without_times
from toolbridge.probe.card_svg import card_svg
from toolbridge.probe.prober import MAX_TOKENS, Prober
from toolbridge.probe.stanza import stanza, with_stanza
from toolbridge.probe.tasks import KINDS, MODES, TASKS, Task
from toolbridge.routing import Router
from toolbridge.state_dir import state_dir
from toolbridge.store.probe_cards import save_card
from toolbridge.upstream.http import Upstream

_BAR = 24


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument(
        "name", metavar="MODEL", help="a name that clients can use, or PROVIDER/MODEL"
    )
    parser.add_argument(
        "--mode", metavar="MODES", default=",".join(MODES), help=f"tool modes ({','.join(MODES)})"
    )
    parser.add_argument(
        "--tasks", metavar="KINDS", default="", help=f"only these kinds: {', '.join(KINDS)}"
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=MAX_TOKENS,
        metavar="N",
        help=f"the most tokens of each answer ({MAX_TOKENS})",
    )
    parser.add_argument("--json", action="store_true", help="print the card as JSON")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also write the card as an image")
    parser.add_argument(
        "--no-times", action="store_true", help="leave out everything that differs between runs"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the best mode into the configuration file"
    )


def run(args: argparse.Namespace) -> int:
    modes, tasks = _modes(args.mode), _tasks(args.tasks)
    if args.max_tokens < 1:
        raise MalformedRequest("must be at least 1", where="--max-tokens")
    config, source = options.load_with_source(args)
    if args.write and source.path is None:
        raise ConfigError(
            "there is no configuration file to write to; create one with `toolbridge init`"
        )
    target = source.path if args.write else None
    for path in (args.svg, target):
        if path is not None:
            check_writable(path)
    card = asyncio.run(_probe(config, args, tasks, modes))
    if args.no_times:
        card = without_times(card)
    _print(card, as_json=args.json)
    _save(card)
    if card.fault:
        unwritten = "; nothing is written" if args.svg or target else ""
        raise ModelError(f"there is no best mode: {card.fault}{unwritten}")
    if args.svg is not None:
        args.svg.write_text(card_svg(card), "utf-8")
    if target is not None:
        _write(target, card)
    return 0


def _save(card: Card) -> None:
    """Keep the card for the page of the gateway."""
    if (state := state_dir(os.environ)) is None:
        return
    shown: JsonObject = {
        "at": time.time(),
        "best": card.best,
        "rows": [list(row) for row in rows(card)],
        "facts": [*facts(card)],
    }
    try:
        save_card(state, card.model, shown)
    except OSError as error:
        print(f"the card is not kept for the page: {error}", file=sys.stderr)


def _print(card: Card, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(card)).decode())
        return
    print(table(card))
    if wrong := failures(card):
        where = f"in the mode {card.best} " if card.best else ""
        print(f"\nnot right {where}(--json has all):")
        print("\n".join(f"  {line}" for line in wrong))


async def _probe(
    config: Config, args: argparse.Namespace, tasks: list[Task], modes: list[ToolMode]
) -> Card:
    async with AsyncExitStack() as stack:
        router = Router(config, await stack.enter_async_context(Upstream()))
        stack.push_async_callback(router.close)
        await router.model_routes.discover()
        route = await router.model_routes.route(args.name)
        progress = _Progress(len(tasks) * len(modes))
        try:
            prober = Prober(router, route, max_tokens=args.max_tokens)
            return await prober.probe(tasks, modes, progress.show)
        finally:
            progress.clear()


class _Progress:
    """A progress bar on stderr, where that is a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._shown = sys.stderr.isatty()

    def show(self, done: int, task: Task, mode: ToolMode) -> None:
        if self._shown:
            full = _BAR * done // self._total
            bar = "█" * full + "░" * (_BAR - full)
            text = f"{bar} {done}/{self._total} {mode}: {task.id}"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _write(path: Path, card: Card) -> None:
    """Write the settings of the card into `path`; a file that was allowed stays allowed."""
    before = path.read_bytes()
    was_allowed = trust.is_allowed(path, before, os.environ)
    path.write_bytes(with_stanza(before.decode("utf-8"), card).encode())
    if was_allowed:
        trust.allow(path, os.environ)
    print(f"\nwritten to {path}:\n{stanza(card)}", end="")


def _modes(given: str) -> list[ToolMode]:
    wanted = [word.strip() for word in given.split(",") if word.strip()]
    if unknown := [word for word in wanted if word not in MODES]:
        raise MalformedRequest(
            f"there is no tool mode {unknown[0]!r}; the modes are {', '.join(MODES)}"
            f"{did_you_mean(unknown[0], MODES)}",
            where="--mode",
        )
    return [mode for mode in MODES if mode in wanted] or list(MODES)


def _tasks(given: str) -> list[Task]:
    wanted = {word.strip() for word in given.split(",") if word.strip()}
    if unknown := sorted(wanted - set(KINDS)):
        raise MalformedRequest(
            f"there is no kind of task {unknown[0]!r}; the kinds are {', '.join(KINDS)}"
            f"{did_you_mean(unknown[0], KINDS)}",
            where="--tasks",
        )
    return [task for task in TASKS if not wanted or task.kind in wanted]
