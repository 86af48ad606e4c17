"""Mend broken tool arguments: text on stdin, JSON on stdout.

The answer holds the arguments, the boldest level that was needed, and every step with its before
and after. The exit status is 1 when nothing could be made of the text.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject, dumps, maybe_object
from toolbridge.healing import heal


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", type=Path, metavar="FILE", help="the tool's JSON Schema")
    parser.add_argument("--level", type=int, default=2, choices=range(4), help="how bold (2)")
    parser.add_argument(
        "--no-words",
        action="store_true",
        help="never take plain words as the value of the only string parameter; the gateway "
        "and structured streams never do",
    )


def run(args: argparse.Namespace) -> int:
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    healing = heal(text, _schema(args.schema), level=args.level, words=not args.no_words)
    print(dumps(msgspec.to_builtins(healing)))
    return 1 if set(healing.value) == {"raw"} else 0


def _schema(path: Path | None) -> JsonObject | None:
    if path is None:
        return None
    schema = maybe_object(path.read_bytes())
    if schema is None:
        raise MalformedRequest("is not a JSON object", where=str(path))
    return schema
