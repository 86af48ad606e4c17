"""Run the gateway with a model on an encrypted node, which serves every model name.

The first request picks a host and pays a deposit. The session is used until the deposit is spent or
the gateway stops; the rest of the deposit is refunded.
"""

import argparse
import asyncio

from toolbridge.cli import options, serve
from toolbridge.cli.node import flags
from toolbridge.cli.node.flags import NodeChoice


def arguments(parser: argparse.ArgumentParser) -> None:
    flags.add(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="print host, price, deposit and calls; pay nothing"
    )
    gateway = parser.add_argument_group("gateway")
    gateway.add_argument("--port", type=int, help="port to listen on (3456; 0 for any free one)")
    gateway.add_argument("--bind", metavar="ADDRESS", help="address to listen on (127.0.0.1)")
    gateway.add_argument("--api-key", dest="key", metavar="KEY", help="key that clients must send")
    gateway.add_argument(
        "--framing",
        choices=("chatml", "labelled"),
        help="how turns are marked in the prompt (chatml)",
    )
    options.add_thinking(gateway)
    options.add_log(gateway)


def run(args: argparse.Namespace) -> int:
    chosen = flags.choose(args)
    if args.dry_run:
        asyncio.run(_plan(chosen))
        return 0
    options.warn_of_key(args)
    listening = serve.open_listeners(chosen.config, None)
    process = serve.ServerProcess(path=chosen.file, env=chosen.env)
    serve.run_server(chosen.config, listening, process)
    return 0


async def _plan(chosen: NodeChoice) -> None:
    chosen.print_heading()
    async with chosen.open() as provider:
        plan = await provider.plan()
    print("\n".join(plan.lines()))
