"""List the hosts that serve the model, best first, and why others are excluded."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from toolbridge.cli.node import flags
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json, dumps
from toolbridge.core.printable import printable
from toolbridge.setting_errors import shorten

if TYPE_CHECKING:
    from toolbridge.node.hosts.candidates import FoundHosts, HostCandidate
    from toolbridge.node.settings import NodeSettings

_FAB = 18
"""Decimals of the token that hosts stake."""


def arguments(parser: argparse.ArgumentParser) -> None:
    flags.add(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, one object")
    parser.add_argument("--no-latency", action="store_true", help="do not contact the hosts")
    parser.add_argument(
        "--forget",
        metavar="ADDRESS",
        help="delete the recorded faults of a host, so that it is used again",
    )


def run(args: argparse.Namespace) -> int:
    chosen = flags.choose(args, paying=False)
    if args.forget is not None:
        _check_address(args.forget)
        deleted = asyncio.run(_forget(chosen, args.forget))
        print(f"{deleted} recorded faults of {args.forget} are deleted")
        return 0
    found = asyncio.run(_find(chosen, measure=not args.no_latency))
    lines = [printable(line) for line in _as_table(found, chosen.settings)]
    print(dumps(_as_json(found)) if args.json else "\n".join(lines))
    return 0 if found.candidates else 1


def _check_address(text: str) -> None:
    from toolbridge.node.chain.address import is_address

    if not is_address(text):
        raise ConfigError(
            f"--forget needs the address of a host (0x and 40 hex digits), not {shorten(text)}"
        )


async def _forget(chosen: flags.NodeChoice, address: str) -> int:
    async with chosen.open_without_key() as provider:
        return await provider.forget_faults(address)


async def _find(chosen: flags.NodeChoice, *, measure: bool) -> "FoundHosts":
    async with chosen.open_without_key() as provider:
        return await provider.hosts(measure=measure)


def _as_json(found: "FoundHosts") -> Json:
    return {
        "hosts": [
            {
                "address": host.address,
                "url": host.url,
                "score": round(host.score, 4),
                "price": host.price,
                "stake": str(host.stake),
                "latency": host.latency,
                "key_from": host.key_from,
            }
            for host in found.candidates
        ],
        "excluded": [{"address": host.address, "why": host.why} for host in found.excluded],
    }


def _as_table(found: "FoundHosts", settings: "NodeSettings") -> list[str]:
    head = ("score", "price", "stake", "latency", "host", "url")
    rows = [head, *(_row(host, settings) for host in found.candidates)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    if not found.candidates:
        lines = [f"no usable host serves {settings.model}"]
    return lines + [f"excluded {host.address}: {host.why}" for host in found.excluded]


def _row(host: "HostCandidate", settings: "NodeSettings") -> tuple[str, ...]:
    from toolbridge.node.chain.amounts import format_amount

    latency = "-" if host.latency is None else f"{host.latency * 1000:.0f} ms"
    stake = f"{format_amount(host.stake, _FAB)} FAB"
    return (
        f"{host.score:.3f}", _price(host, settings), stake, latency, host.address, host.url,
    )  # fmt: skip


def _price(host: "HostCandidate", settings: "NodeSettings") -> str:
    """Return the price per million tokens; the unit of the contracts is 1/1000 of the smallest."""
    return f"{settings.currency.format(host.price * 1000)}/M" if host.price else "-"
