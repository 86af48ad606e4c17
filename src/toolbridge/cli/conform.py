"""Score a gateway: run upstreams that misbehave, and check the responses that its clients get."""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from toolbridge.cli.conform_target import check_target, no_case
from toolbridge.conformance import report, scripted_upstream
from toolbridge.conformance.cases import APIS, Case, CaseBook, load
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
    parser.add_argument("url", nargs="?", metavar="URL", help="the gateway, such as 127.0.0.1:3456")
    parser.add_argument("--self", action="store_true", dest="own", help="score this toolbridge")
    names = (*APIS, "all")
    parser.add_argument(
        "--api", choices=names, metavar="API",
        help=f"the client's API: {', '.join(APIS)}; `all` with --self only, and the default there",
    )  # fmt: skip
    parser.add_argument(
        "--upstream", choices=names, metavar="API",
        help="the API of the scripted upstream (openai_chat; with --self all)",
    )  # fmt: skip
    parser.add_argument(
        "--listen", type=int, default=PORT, metavar="PORT",
        help=f"the port of the scripted upstream ({PORT})",
    )  # fmt: skip
    parser.add_argument("--model", default="conform", help="the model name in requests (conform)")
    parser.add_argument(
        "--only", default="*", metavar="GLOB", help="only this case, family or tag; see --list"
    )
    parser.add_argument(
        "--passthrough",
        action="store_true",
        help="the gateway forwards the bytes of the same API unchanged",
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
    matching = book.matching(args.only)
    if not matching:
        raise no_case(args.only, known=book.groups())
    if args.list:
        return _list(matching)
    check_target(args)
    outcomes = asyncio.run(_own(args, book) if args.own else _other(args, book))
    if args.json:
        print(report.as_json(outcomes))
    else:
        print(report.as_text(outcomes))
    return 0 if outcomes and all(outcome.passed for outcome in outcomes) else 1


def _list(cases: list[Case]) -> int:
    for case in cases:
        print(f"{case.id:<44} {case.family:<10} {case.why}")
    print(f"{len(cases)} cases")
    return 0


def _note(text: str) -> None:
    print(text, file=sys.stderr)


async def _other(args: argparse.Namespace, book: CaseBook) -> list[CaseOutcome]:
    if args.api in {None, "all"}:
        raise ConfigError(f"give the API of the client: {', '.join(APIS)}", where="--api")
    upstream = args.upstream or "openai_chat"
    if upstream == "all":
        raise ConfigError(f"give one API of the upstream: {', '.join(APIS)}", where="--upstream")
    cases = book.select(api=upstream, client=args.api, only=args.only, passthrough=args.passthrough)
    if not cases:
        raise no_case(args.only, f" for clients of {args.api} and an upstream of {upstream}")
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
        if not scored:
            raise no_case(args.only, " for these APIs")
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
