"""The command line: one file per command, loaded when it is called."""

import argparse
import difflib
import sys
from importlib import import_module

from toolbridge.core.errors import ToolbridgeError

COMMANDS = {
    "serve": "run the gateway",
    "claude": "run Claude Code through the gateway",
    "ask": "ask a model something, here in the terminal",
    "translate": "turn one API's stream or request into another's, from stdin to stdout",
    "read": "find the calls and thoughts in what a model wrote, from stdin to stdout",
    "conform": "score a gateway: play upstreams that misbehave, check what comes out",
    "heal": "mend broken tool arguments, from stdin to stdout",
    "models": "list the models on offer",
    "init": "write a toolbridge.toml",
    "doctor": "look for what is wrong, and say what to do",
    "status": "tell whether a gateway runs in the background",
    "stop": "stop the gateway that runs in the background",
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit status."""
    given = sys.argv[1:] if argv is None else argv
    if not given or given[0] in {"-h", "--help", "help"}:
        print(_help())
        return 0 if given else 2
    if given[0] in {"-V", "--version"}:
        print(f"toolbridge {version()}")
        return 0
    if given[0] not in COMMANDS:
        near = difflib.get_close_matches(given[0], COMMANDS, 1)
        hint = f"; did you mean `{near[0]}`?" if near else "; `toolbridge --help` lists them"
        print(f"toolbridge: there is no command `{given[0]}`{hint}", file=sys.stderr)
        return 2
    return _run(given[0], given[1:])


def _run(name: str, given: list[str]) -> int:
    command = import_module(f"{__name__}.{name}")
    parser = argparse.ArgumentParser(f"toolbridge {name}", description=command.__doc__)
    command.arguments(parser)
    try:
        status: int = command.run(parser.parse_args(given))
    except ToolbridgeError as error:
        print(f"toolbridge: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader left; say nothing about it
        return 141
    return status


def _help() -> str:
    rows = "\n".join(f"  {name:<11}{text}" for name, text in COMMANDS.items())
    return (
        "toolbridge: any LLM client, any model, tool calls that work\n\n"
        f"usage: toolbridge COMMAND [options]\n\ncommands:\n{rows}\n\n"
        "`toolbridge COMMAND --help` tells more; `toolbridge serve` is the place to start."
    )


def version() -> str:
    from importlib.metadata import version as installed

    return installed("toolbridge")
