"""Flags that several commands share."""

import argparse
import sys
from pathlib import Path

from toolbridge import config
from toolbridge.config import Config, ConfigSource
from toolbridge.core.errors import ConfigError


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration file")


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
    parser.add_argument(
        "--thinking",
        choices=("auto", "drop", "reject"),
        help="what to do with thinking for a model that cannot (auto)",
    )
    parser.add_argument(
        "--record", metavar="DIR", help="write the bytes of every model request to a file in DIR"
    )
    parser.add_argument(
        "--log", choices=("json", "pretty", "auto", "off"), help="format of the request log (auto)"
    )


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
    return config.load(args.config, flags=flags(args))


def load_with_source(
    args: argparse.Namespace, *, unattended: bool = False
) -> tuple[Config, ConfigSource]:
    """Return the configuration and its file; print why a file is not used.

    For a process that is `unattended`, raise `ConfigError` instead: its warnings are only in a log.
    """
    source = config.choose(args.config)
    if source.refused and unattended:
        raise ConfigError(f"{source.refused}. Or choose the file yourself with --config FILE")
    if source.refused:
        print(f"toolbridge: {source.refused}", file=sys.stderr)
    return config.read(source, flags=flags(args)), source


def flags(args: argparse.Namespace) -> dict[str, object]:
    """Return the settings that this command line has."""
    # A command with a positional model must give it another name: `model` sets the default of the map.
    names = ("host", "port", "key", "thinking", "log", "model", "record", "workers")
    return {name: getattr(args, name, None) for name in names}
