"""Flags that several commands share."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from toolbridge import config_file
from toolbridge.config import Config
from toolbridge.config_file import ConfigSource
from toolbridge.core.errors import ConfigError, MalformedRequest


def add_config(parser: argparse.ArgumentParser, *, of_subcommand: bool = False) -> None:
    """Add `--config`; a subcommand keeps what was given before its name."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the configuration file (./toolbridge.toml if it is allowed, or your own)",
        default=argparse.SUPPRESS if of_subcommand else None,
    )


def add_subcommands(
    parser: argparse.ArgumentParser, texts: Mapping[str, tuple[str, str]]
) -> Callable[[str], argparse.ArgumentParser]:
    """Return a function that adds a subcommand; `texts` has its summary and the rest of its help.

    Every subcommand accepts `--config`, as the command before it does.
    """
    add_config(parser)
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")

    def add(name: str) -> argparse.ArgumentParser:
        line, more = texts[name]
        command = commands.add_parser(
            name, help=line, description=f"{line[0].upper()}{line[1:]}. {more}"
        )
        add_config(command, of_subcommand=True)
        return command

    return add


def add_thinking(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--thinking",
        choices=("auto", "drop", "reject"),
        help="for a model that cannot think: `drop` leaves thinking out of requests, `reject` "
        "answers 400, `auto` decides by what the request asks for (auto)",
    )


def add_log(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--log",
        choices=("json", "pretty", "auto", "off"),
        help="the request log on standard error: `pretty` is one short line per request, `json` one "
        "JSON object per line, `auto` pretty on a terminal and JSON elsewhere, `off` none (auto)",
    )


def gateway_url(text: str, where: str = "--url") -> str:
    """Return the address of a gateway, with `http://` if it has no scheme."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        usable = parts.port is None or parts.port > 0
    except ValueError:  # the port is not a number, or a bracket is open
        usable = False
    usable = usable and parts.scheme in {"http", "https"} and not (parts.query or parts.fragment)
    if not usable or not _HOST.fullmatch(parts.netloc):
        raise MalformedRequest(
            f"must be the address of a gateway, such as http://127.0.0.1:3456, not {text!r}",
            where=where,
        )
    return url.rstrip("/")


_HOST = re.compile(r"[\w.:@%\[\]-]+")


def add_server(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (3456; 0 for any free one)")
    parser.add_argument(
        "--api-key", dest="key", metavar="KEY", help="the key that clients must send"
    )
    parser.add_argument(
        "--model",
        metavar="PROVIDER/MODEL",
        help="the model for every name without a route of its own; `demo` for the embedded one",
    )
    add_thinking(parser)
    parser.add_argument(
        "--record", metavar="DIR", help="write the bytes of every model request to a file in DIR"
    )
    add_log(parser)


def warn_of_key(args: argparse.Namespace) -> None:
    """Print a warning if the key was given on the command line."""
    if args.key:
        print(
            "toolbridge: other users of this machine can read a key on a command line; "
            "set TOOLBRIDGE_KEY, or `key` in the configuration file",
            file=sys.stderr,
        )


def load(args: argparse.Namespace) -> Config:
    """Return the configuration with the flags of this command line."""
    return config_file.load(args.config, flags=flags(args))


def load_with_source(
    args: argparse.Namespace, *, unattended: bool = False
) -> tuple[Config, ConfigSource]:
    """Return the configuration and its file; print why a file is not used.

    For a process that is `unattended`, raise `ConfigError` instead: its warnings are only in a log.
    """
    source = config_file.choose(args.config)
    if source.refused and unattended:
        raise ConfigError(f"{source.refused}. Or choose the file yourself with --config FILE")
    if source.refused:
        print(f"toolbridge: {source.refused}", file=sys.stderr)
    return config_file.read(source, flags=flags(args)), source


def flags(args: argparse.Namespace) -> dict[str, object]:
    """Return the settings that this command line has."""
    # A command with a positional model must give it another name: `model` sets the default of the map.
    names = ("host", "port", "key", "thinking", "log", "model", "record", "workers")
    return {name: getattr(args, name, None) for name in names}
