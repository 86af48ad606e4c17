"""What `toolbridge conform` scores: the gateway and the selection of cases, checked."""

import argparse

from toolbridge.cli import options
from toolbridge.core.errors import COMMAND_LINE, ConfigError, MalformedRequest


def check_target(args: argparse.Namespace) -> None:
    """Raise for a command line that names no gateway, or none that can be one."""
    if (args.url is not None) == args.own:
        raise ConfigError("give either the URL of a gateway or --self", where=COMMAND_LINE)
    if args.url is not None:
        args.url = options.gateway_url(args.url, "URL")


def no_case(only: str, pair: str = ", family or tag") -> MalformedRequest:
    """Return the error for a selection without cases."""
    return MalformedRequest(
        f"no case{pair} matches {only!r}; `toolbridge conform --list` shows all", where="--only"
    )
