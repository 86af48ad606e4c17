"""Read what a model wrote: text on stdin; its words, thoughts and calls as JSON on stdout.

The tools are a JSON list, in the shape of any of the APIs. Without --tools, calls are read by any
name.
"""

import argparse
import sys
from pathlib import Path

from toolbridge import dialects
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import dumps, loads
from toolbridge.core.messages import Tool
from toolbridge.core.tools import as_tools
from toolbridge.dialects.reader import read_text


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tools", type=Path, metavar="FILE", help="the tools on offer, as JSON")
    parser.add_argument(
        "--dialect",
        default="auto",
        choices=["auto", *dialects.names()],
        metavar="NAME",
        help=f"how calls are written: auto, {', '.join(dialects.names())}",
    )
    parser.add_argument("--model", default="", help="a model's name, from which auto knows more")


def run(args: argparse.Namespace) -> int:
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    tools = None if args.tools is None else read_tools(args.tools)
    reading = read_text(text, tools, dialect=args.dialect, model=args.model)
    calls = [
        {"id": call.id, "name": call.name, "arguments": call.arguments}
        | ({"raw": call.raw} if call.raw else {})
        for call in reading.calls
    ]
    print(dumps({"content": reading.content, "reasoning": reading.reasoning, "calls": calls}))
    return 0


def read_tools(path: Path) -> tuple[Tool, ...]:
    """Return tools from a file, whichever API's shape they have."""
    try:
        found = loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise MalformedRequest(str(error), where=str(path)) from None
    listed = found.get("tools", found) if isinstance(found, dict) else found
    if not isinstance(listed, list):
        raise MalformedRequest("is not a list of tools", where=str(path))
    return as_tools(listed, str(path))
