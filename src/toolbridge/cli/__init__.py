"""The command line: one module per command, imported when the command runs."""

import gc
import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType

from toolbridge.cli.parser import CommandParser, nearest
from toolbridge.cli_start import raise_at_interrupt
from toolbridge.core.errors import COMMAND_LINE, ToolbridgeError
from toolbridge.core.printable import printable
from toolbridge.version import __version__

COMMANDS = {
    "serve": "run the gateway",
    "claude": "run Claude Code through the gateway",
    "node": "use a model on encrypted nodes: serve it, list hosts, show the balance",
    "ask": "ask a model in the terminal",
    "translate": "translate a stream or a request between APIs, from stdin to stdout",
    "read": "parse tool calls and thoughts in a model's text, from stdin to stdout",
    "conform": "score a gateway against upstreams that misbehave",
    "heal": "fix broken tool arguments, from stdin to stdout",
    "explain": "show how a request was routed, changed and answered",
    "demo": "run a structured stream with tools, a repair and a pause",
    "runs": "list the recorded structured streams",
    "show": "show a recorded stream on a time axis",
    "replay": "run a recorded request again and show the difference, or print a recorded stream",
    "models": "list the models that can be used",
    "probe": "print a report card of a model: tool calls, schemas, thinking, speed",
    "init": "write a toolbridge.toml",
    "import": "turn a file of LiteLLM, claude-code-router or Portkey into a toolbridge.toml",
    "allow": "allow the toolbridge.toml of this directory",
    "key": "create, list and revoke keys of users, with scopes and limits",
    "usage": "show tokens, cost and errors by model, key, day, session or client",
    "mcp": "list and call the tools of MCP servers, log in at one",
    "doctor": "check the setup and show how to fix it",
    "status": "show the gateway that runs in the background",
    "reload": "make that gateway read its configuration again",
    "restart": "replace that gateway by a new process, without refusing a connection",
    "stop": "stop the gateway that runs in the background",
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit status."""
    try:
        raise_at_interrupt()
        _ready_streams()
        try:
            return _dispatch(sys.argv[1:] if argv is None else argv)
        finally:
            # A closed pipe is reported here, and not while the interpreter exits.
            sys.stdout.flush()
    except ToolbridgeError as error:
        text = "\n".join(printable(line) for line in str(error).split("\n"))
        print(f"toolbridge: {text}", file=sys.stderr)
        # Values that argparse cannot check are named by their flag.
        return 2 if text.startswith("-") or error.problem.where == COMMAND_LINE else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except OSError as error:  # a file that is missing, a disk that is full
        print(f"toolbridge: {_os_fault(error)}", file=sys.stderr)
        _drop_output()
        return 1


def _os_fault(error: OSError) -> str:
    """Return what the system refused, with the file if it has a name."""
    what = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {what}" if isinstance(error.filename, str) else what


def _drop_output() -> None:
    """Discard buffered output, because standard output cannot be written."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(given: list[str]) -> int:
    if not given or given[0] in {"-h", "--help", "help"}:
        print(_help())
        return 0 if given else 2
    if given[0] in {"-V", "--version"}:
        print(f"toolbridge {__version__}")
        return 0
    if given[0] not in COMMANDS:
        hint = nearest(given[0], COMMANDS) or "; run `toolbridge --help` for a list"
        print(f"toolbridge: there is no command `{given[0]}`{hint}", file=sys.stderr)
        return 2
    return _run(given[0], given[1:])


def _run(name: str, given: list[str]) -> int:
    command = _imported(name)
    parser = CommandParser(f"toolbridge {name}", description=command.__doc__)
    command.arguments(parser)
    split = getattr(command, "split", None)
    args, _ = parser.parse_known_args(given if split is None else split(given))
    status: int = command.run(args)
    return status


def _imported(name: str) -> ModuleType:
    """Import a command without the garbage collector: modules are no garbage, and many objects."""
    gc.disable()
    try:
        return import_module(f"{__name__}.{name}")
    finally:
        gc.freeze()
        gc.enable()


def _ready_streams() -> None:
    """Replace closed standard streams, and let characters that cannot be encoded be replaced."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _help() -> str:
    rows = "\n".join(f"  {name:<11}{text}" for name, text in COMMANDS.items())
    return (
        "toolbridge: any LLM client, any model, tool calls that work\n\n"
        f"usage: toolbridge COMMAND [options]\n\ncommands:\n{rows}\n\n"
        "Run `toolbridge COMMAND --help` for the options; start with `toolbridge serve`."
    )
