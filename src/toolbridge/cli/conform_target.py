"""What `toolbridge conform` scores: the gateway and the selection of cases, checked."""

import argparse
from collections.abc import Iterable

from toolbridge.cli import options
from toolbridge.core.close_names import did_you_mean
from toolbridge.core.errors import COMMAND_LINE, ConfigError, MalformedRequest


def check_target(args: argparse.Namespace) -> None:
    """Raise for a command line that names no gateway, or none that can be one."""
    if (args.url is not None) == args.own:
        raise ConfigError("give either the URL of a gateway or --self", where=COMMAND_LINE)
    if args.url is not None:
        args.url = options.gateway_url(args.url, "URL")


def no_case(
    only: str, pair: str = ", family or tag", known: Iterable[str] = ()
) -> MalformedRequest:
    """Return the error for a selection without cases; `known` are the names to suggest."""
    return MalformedRequest(
        f"no case{pair} matches {only!r}; `toolbridge conform --list` shows all"
        f"{did_you_mean(only, known)}",
        where="--only",
    )
