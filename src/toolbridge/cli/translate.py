"""Translate an answer from one API to another, from stdin to stdout, while it arrives.

Reads a stream or a whole response; with --request, a request. What the target API cannot express is
listed on stderr, one `lost:` line each. A broken or truncated input ends the output with an error in
the target API, and the exit status is 1.
"""

import argparse
import os
import sys
import time

import msgspec

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext, Target
from toolbridge.core.json import dumps
from toolbridge.core.messages import Loss
from toolbridge.translate import ASKED, RequestOptions, plan, translate

PIECE = 65536


def arguments(parser: argparse.ArgumentParser) -> None:
    apis = codecs.names()
    parser.add_argument(
        "--from", dest="source", choices=apis, required=True, help="the API of the input"
    )
    parser.add_argument(
        "--to", dest="target", choices=apis, required=True, help="the API of the output"
    )
    parser.add_argument("--request", action="store_true", help="translate a request, not an answer")
    parser.add_argument("--model", default="", help="the model's name in the output")


def run(args: argparse.Namespace) -> int:
    return _request(args) if args.request else _answer(args)


def _answer(args: argparse.Namespace) -> int:
    asked = AnswerContext(msgspec.structs.replace(ASKED.request, model=args.model), time.time())
    stage = translate(args.source, args.target, asked=asked, seed=os.urandom(16))
    out = sys.stdout.buffer
    # os.read returns the bytes that are available; a buffered read would wait for a full buffer.
    while piece := os.read(sys.stdin.fileno(), PIECE):
        out.write(b"".join(stage.feed(piece)))
        out.flush()
    out.write(b"".join(stage.close()))
    out.flush()
    _print_losses(stage.losses)
    if isinstance(stage.end, ev.Finished):
        return 0
    if stage.end is not None:
        print(f"toolbridge: {stage.end.problem.text}", file=sys.stderr)
    return 1


def _request(args: argparse.Namespace) -> int:
    request = codecs.load(args.source).decode_request(sys.stdin.buffer.read(), model=args.model)
    target = Target(model=args.model or request.model)
    ready = plan(request, codecs.load(args.target), target, RequestOptions(thinking="drop"))
    print(dumps(ready.outgoing.body))
    _print_losses(ready.losses)
    return 0


def _print_losses(losses: tuple[Loss, ...]) -> None:
    for loss in losses:
        print(f"lost: {loss}", file=sys.stderr)
