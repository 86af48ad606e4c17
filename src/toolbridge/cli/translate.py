"""Turn one API's answer into another's, from stdin to stdout, as it comes.

Reads a stream or a whole reply. With --request, reads a request instead. An input that is broken or
cut ends the output with the target's own error, and the exit status is 1.
"""

import argparse
import os
import sys
import time

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.codec import Asked, Target
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.ids import Ids
from toolbridge.core.json import dumps
from toolbridge.core.messages import Message, Request
from toolbridge.healing import Healer
from toolbridge.translate import Wishes, plan

PIECE = 65536


def arguments(parser: argparse.ArgumentParser) -> None:
    apis = codecs.names()
    parser.add_argument("--from", dest="source", choices=apis, required=True, help="what comes in")
    parser.add_argument("--to", dest="target", choices=apis, required=True, help="what goes out")
    parser.add_argument("--request", action="store_true", help="translate a request, not an answer")
    parser.add_argument("--model", default="", help="the model's name in the output")


def run(args: argparse.Namespace) -> int:
    return _request(args) if args.request else _answer(args)


def _answer(args: argparse.Namespace) -> int:
    decoder = codecs.load(args.source).stream_decoder(Ids(os.urandom(16)))
    healer = Healer(())
    asked = Asked(Request(model=args.model), time.time())
    encoder = codecs.load(args.target).stream_encoder(asked)
    last: ev.Event | None = None

    def tell(events: list[ev.Event]) -> None:
        nonlocal last
        for event in events:
            for healed in healer.feed(event):
                last = healed
                sys.stdout.buffer.write(b"".join(encoder.feed(healed)))
        sys.stdout.buffer.flush()

    try:
        # os.read returns what there is; a buffered read would wait for a full buffer.
        while piece := os.read(sys.stdin.fileno(), PIECE):
            tell(decoder.feed(piece))
        tell(decoder.close())
    except ToolbridgeError as error:
        tell([ev.Failed(error.problem, Message(problem=error.problem))])
    if not isinstance(last, ev.Finished):
        if isinstance(last, ev.Failed):
            print(f"toolbridge: {last.problem.text}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(b"".join(encoder.close()))
    return 0


def _request(args: argparse.Namespace) -> int:
    request = codecs.load(args.source).decode_request(sys.stdin.buffer.read(), model=args.model)
    target = Target(model=args.model or request.model)
    ready = plan(request, codecs.load(args.target), target, Wishes(thinking="drop"))
    print(dumps(ready.outgoing.body))
    for loss in ready.losses:
        print(f"lost: {loss}", file=sys.stderr)
    return 0
