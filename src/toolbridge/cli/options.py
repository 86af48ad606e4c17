"""Flags that several commands share."""

import argparse
import sys
from pathlib import Path

from toolbridge import config
from toolbridge.config import Config, ConfigSource


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration to use")


def add_server(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (3456; 0 for any free one)")
    parser.add_argument("--api-key", dest="key", metavar="KEY", help="key that clients must send")
    parser.add_argument(
        "--model",
        metavar="PROVIDER/MODEL",
        help="the model for every other name; `demo` for the embedded one",
    )
    parser.add_argument("--thinking", choices=("auto", "drop", "reject"))
    parser.add_argument("--log", choices=("json", "pretty", "auto", "off"))


def warn_of_key(args: argparse.Namespace) -> None:
    if args.key:
        print(
            "toolbridge: others on this machine can read a key on a command line; "
            "TOOLBRIDGE_KEY or `key` in the file is safer",
            file=sys.stderr,
        )


def load(args: argparse.Namespace) -> Config:
    """Return the configuration with this command line's flags on top."""
    return config.load(args.config, flags=_flags(args))


def load_with_source(args: argparse.Namespace) -> tuple[Config, ConfigSource]:
    """Return the configuration, and the file that it is from; say why a file is not used."""
    source = config.choose(args.config)
    if source.refused:
        print(f"toolbridge: {source.refused}", file=sys.stderr)
    return config.read(source, flags=_flags(args)), source


def _flags(args: argparse.Namespace) -> dict[str, object]:
    names = ("host", "port", "key", "thinking", "log", "model")
    return {name: getattr(args, name, None) for name in names}
