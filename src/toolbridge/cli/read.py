"""Parse a model's text from stdin; print its text, thoughts and tool calls as JSON on stdout.

The tools are a JSON list in the shape of any API. Without --tools, calls of any name are accepted.
"""

import argparse
import sys
from pathlib import Path

from toolbridge import dialects
from toolbridge.cli.files import read_file
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import dumps, loads
from toolbridge.core.messages import Tool
from toolbridge.core.tools import as_tools
from toolbridge.dialects.reader import read_text


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tools", type=Path, metavar="FILE", help="the tools, as JSON")
    parser.add_argument(
        "--dialect",
        default="auto",
        choices=["auto", *dialects.names()],
        metavar="NAME",
        help=f"the dialect of the calls: auto, {', '.join(dialects.names())}",
    )
    parser.add_argument("--model", default="", help="the model's name, which `auto` uses")


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
    """Return the tools in a file, in the shape of any API."""
    try:
        found = loads(read_file(path))
    except ValueError as error:
        raise MalformedRequest(str(error), where=str(path)) from None
    listed = found.get("tools", found) if isinstance(found, dict) else found
    if not isinstance(listed, list):
        raise MalformedRequest("the file is not a JSON list of tools", where=str(path))
    return as_tools(listed, str(path))
