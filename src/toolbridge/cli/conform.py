"""Score a gateway: run upstreams that misbehave, and check the responses that its clients get."""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from toolbridge.conformance import report, scripted_upstream
from toolbridge.conformance.cases import APIS, CaseBook, load
from toolbridge.conformance.runner import CaseOutcome, Runner
from toolbridge.conformance.translation import (
    ScoredGateway,
    TranslationCase,
    TranslationPlayer,
)
from toolbridge.core.errors import ConfigError

PORT = 21100
AT_ONCE = 32
"""Concurrent cases against our own gateway; other gateways may limit requests per client."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", nargs="?", help="the URL of the gateway")
    parser.add_argument("--self", action="store_true", dest="own", help="score this toolbridge")
    parser.add_argument("--api", help=f"the client's API: {', '.join(APIS)}; with --self also all")
    parser.add_argument("--upstream", help="the upstream's API (openai_chat; with --self all)")
    parser.add_argument(
        "--listen", type=int, default=PORT, metavar="PORT", help="the upstream's port"
    )
    parser.add_argument("--model", default="conform", help="the model name in requests")
    parser.add_argument("--only", default="*", metavar="GLOB", help="a case, a family or a tag")
    parser.add_argument(
        "--passthrough", action="store_true", help="same API, bytes forwarded unchanged"
    )
    parser.add_argument("--key", default="", help="the key of the gateway")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    parser.add_argument("--stream", action="store_true", help="score structured streams instead")
    parser.add_argument(
        "--save", type=Path, metavar="FOLDER", help="with --stream: save the matrix as JSON and SVG"
    )


def run(args: argparse.Namespace) -> int:
    if args.stream:
        from toolbridge.cli import conform_stream

        return conform_stream.run(args)
    book = load()
    if args.list:
        return _list(book)
    if bool(args.url) == args.own:
        raise ConfigError("give either the URL of a gateway or --self")
    outcomes = asyncio.run(_own(args, book) if args.own else _other(args, book))
    if args.json:
        print(report.as_json(outcomes))
    else:
        print(report.as_text(outcomes))
    return 0 if outcomes and all(outcome.passed for outcome in outcomes) else 1


def _list(book: CaseBook) -> int:
    for case in book.cases:
        print(f"{case.id:<44} {case.family:<10} {case.why}")
    print(f"{len(book.cases)} cases")
    return 0


def _note(text: str) -> None:
    print(text, file=sys.stderr)


async def _other(args: argparse.Namespace, book: CaseBook) -> list[CaseOutcome]:
    if not args.api:
        raise ConfigError(f"give the API of the client with --api: {', '.join(APIS)}")
    upstream = args.upstream or "openai_chat"
    cases = book.select(api=upstream, client=args.api, only=args.only, passthrough=args.passthrough)
    try:
        async with scripted_upstream.serve(args.listen) as played:
            _note(report.how_to_configure(upstream, played.url, args.model))
            gateway = ScoredGateway(args.url, args.model, args.key, passthrough=args.passthrough)
            player = TranslationPlayer(book, played)
            return await Runner(player).run(
                TranslationCase(case, args.api, gateway) for case in cases
            )
    except OSError as error:
        raise ConfigError(
            f"cannot listen on port {args.listen}: {error}; choose another with --listen"
        ) from None


async def _own(args: argparse.Namespace, book: CaseBook) -> list[CaseOutcome]:
    from toolbridge.conformance import self_gateway

    fronts = _chosen(args.api, self_gateway.served(), "is not served to clients")
    backs = _chosen(args.upstream, self_gateway.spoken(), "is not supported for upstreams")
    scored: list[TranslationCase] = []
    async with (
        scripted_upstream.serve() as played,
        self_gateway.gateway(self_gateway.translation_config(played.url)) as url,
    ):
        for front, back, passthrough in _pairs(fronts, backs):
            cases = book.select(
                api=back,
                client=front,
                only=args.only,
                passthrough=passthrough,
                emulated=not passthrough,
            )
            gateway = ScoredGateway(
                url,
                self_gateway.model(back, passthrough=passthrough),
                local_model=self_gateway.local_model(back),
                passthrough=passthrough,
            )
            scored += [TranslationCase(case, front, gateway) for case in cases]
        return await Runner(TranslationPlayer(book, played), at_once=AT_ONCE).run(scored)


def _pairs(fronts: list[str], backs: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield client API, upstream API and whether bytes are passed through (extra rows)."""
    for front in fronts:
        for back in backs:
            yield front, back, False
            if front == back:
                yield front, back, True


def _chosen(wanted: str | None, available: list[str], why_not: str) -> list[str]:
    names = APIS if wanted in {None, "all"} else (wanted,)
    for name in names:
        if name not in available:
            _note(f"left out: {name} {why_not}")
    return [name for name in names if name in available]
