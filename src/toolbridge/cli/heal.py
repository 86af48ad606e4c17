"""Fix broken tool arguments: text on stdin, JSON on stdout.

The output has the arguments, the highest level that was needed, and every step with the text before
and after it. The exit status is 1 if the text could not be fixed.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from toolbridge.cli.files import read_file
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject, dumps, maybe_object
from toolbridge.healing import heal


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", type=Path, metavar="FILE", help="the tool's JSON Schema")
    parser.add_argument(
        "--level",
        type=int,
        default=2,
        choices=range(4),
        help="0 strict, 1 syntax, 2 by schema, 3 guesses (2)",
    )
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
    schema = maybe_object(read_file(path))
    if schema is None:
        raise MalformedRequest("the file is not a JSON object", where=str(path))
    return schema
