"""Ask a model in the terminal: `toolbridge ask why is the sky blue`.

Text on stdin is appended to the question. With --think the model's thoughts are printed on stderr.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing

import msgspec

from toolbridge.cli import options
from toolbridge.config import Config
from toolbridge.core import events as ev
from toolbridge.core.errors import MalformedRequest, error_of
from toolbridge.core.messages import Loss, Request, Text, Think, Turn
from toolbridge.policy.failover import TriedAddress, chain_loss
from toolbridge.routing import Router
from toolbridge.routing.attempts import AnswerAttempts
from toolbridge.routing.route import Route
from toolbridge.upstream.http import Upstream


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument("-m", "--model", metavar="MODEL", help="the model (the default model)")
    parser.add_argument("-s", "--system", default="", help="the system prompt")
    parser.add_argument("--think", action="store_true", help="turn thinking on, and print it")
    parser.add_argument("--json", action="store_true", help="print events, one JSON line each")
    parser.add_argument("prompt", nargs="*", help="the question")


def run(args: argparse.Namespace) -> int:
    words = " ".join(args.prompt)
    if not sys.stdin.isatty():
        words = "\n\n".join(part for part in (words, sys.stdin.read()) if part.strip())
    if not words.strip():
        raise MalformedRequest("the question is missing; try `toolbridge ask why is the sky blue`")
    model, args.model = args.model or "", None
    asyncio.run(_ask(options.load(args), model, words, args))
    return 0


async def _ask(config: Config, model: str, words: str, args: argparse.Namespace) -> None:
    async with AsyncExitStack() as stack:
        router = Router(config, await stack.enter_async_context(Upstream()))
        stack.push_async_callback(router.close)
        await router.model_routes.discover()
        request = Request(
            model=model,
            turns=(Turn("user", (Text(words),)),),
            system=(Text(args.system),) if args.system else (),
            think=Think(mode="on") if args.think else Think(),
            stream=True,
        )

        instead: tuple[Loss, ...] = ()

        async def open_attempts(route: Route, tried: Sequence[TriedAddress]) -> AnswerAttempts:
            nonlocal instead
            instead = (chain_loss(tried, route.address),) if tried else ()
            named = msgspec.structs.replace(request, model=model or route.address)
            counted = router.admit(named, route)
            return router.attempts(
                named, route, counted.tokens, attaches=True, on_losses=_print_losses
            )

        async with aclosing(router.chain(model, open_attempts).events()) as batches:
            async for batch in batches:
                # Only now is it certain that this model of the chain answers.
                _print_losses(instead)
                instead = ()
                for event in batch:
                    _show(event, as_json=args.json)


def _print_losses(losses: tuple[Loss, ...]) -> None:
    for loss in losses:
        print(f"toolbridge: lost {loss}", file=sys.stderr)


def _show(event: ev.Event, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(event).decode(), flush=True)
        return
    match event:
        case ev.TextDelta(_, text):
            print(text, end="", flush=True)
        case ev.ThinkingDelta(_, text):
            print(text, end="", file=sys.stderr, flush=True)
        case ev.ThinkingEnd():
            print(os.linesep, file=sys.stderr)
        case ev.Lost(loss):
            _print_losses((loss,))
        case ev.Finished():
            print()
        case ev.Failed(problem):
            print()
            raise error_of(problem)
        case _:
            pass
