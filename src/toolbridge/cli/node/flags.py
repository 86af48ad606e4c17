"""Flags that the commands of `toolbridge node` share, and the settings that result from them.

Precedence: defaults, configuration file, environment, flags; later ones replace earlier ones.
"""

import argparse
import getpass
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolbridge import config_file
from toolbridge.cli import options
from toolbridge.cli.node.env_file import with_env_file
from toolbridge.config import Config, ProviderConfig
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json
from toolbridge.routing import nodes

if TYPE_CHECKING:
    from toolbridge.node.provider import NodeProvider
    from toolbridge.node.settings import NodeSettings

KEYS = ("CLAUDE_BRIDGE_PRIVATE_KEY", "TOOLBRIDGE_NODE_KEY")
_TABLE = (
    "model", "host", "host_url", "host_key", "chain_id", "rpc_url", "deposit", "mode", "pay",
    "daily_limit", "daily_gas", "price", "confirmations", "sessions", "seed",
)  # fmt: skip
"""Flags with the name of a setting in the `node` table."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the shared flags to `parser`."""
    options.add_config(parser)
    parser.add_argument(
        "--provider", metavar="NAME", help="which node provider of the configuration file"
    )
    parser.add_argument(
        "--env-file", type=Path, metavar="FILE", help="read environment variables from FILE"
    )
    keys = parser.add_argument_group("private key")
    keys.add_argument(
        "--private-key",
        metavar="HEX",
        help="the key itself; other users of this machine can read it",
    )
    keys.add_argument(
        "--key-file", type=Path, metavar="FILE", help="a file with the key that only you can read"
    )
    target = parser.add_argument_group("model and host")
    target.add_argument("--model", metavar="REPO:FILE", help="model (CLAUDE_BRIDGE_MODEL)")
    target.add_argument("--host", metavar="ADDRESS", help="use only this host (CLAUDE_BRIDGE_HOST)")
    target.add_argument("--host-url", metavar="URL", help="URL of that host")
    target.add_argument(
        "--host-key", metavar="HEX", help="its public key; with --host-url, no chain is used"
    )
    target.add_argument(
        "--mode", choices=("auto", "cheapest", "reliable", "fastest"), help="how hosts are scored"
    )
    target.add_argument("--seed", type=int, help="seed of the random pick of a host")
    chain = parser.add_argument_group("chain and payment")
    chain.add_argument("--chain-id", type=int, metavar="N", help="id of the chain (84532)")
    chain.add_argument("--rpc-url", metavar="URL", help="JSON-RPC server of that chain")
    chain.add_argument("--pay", choices=("native", "token"), help="currency to pay with (native)")
    chain.add_argument("--deposit", metavar="AMOUNT", help="deposit per session (0.0002)")
    chain.add_argument(
        "--daily-limit", metavar="AMOUNT", help="limit of all deposits in 24 hours (0.002)"
    )
    chain.add_argument("--daily-gas", metavar="AMOUNT", help="limit of all gas in 24 hours (0.001)")
    chain.add_argument(
        "--price",
        type=int,
        metavar="N",
        help="highest price, in the unit of the contracts (5 dollars per million tokens)",
    )
    chain.add_argument(
        "--confirmations", type=int, metavar="N", help="blocks until a payment counts (1)"
    )
    chain.add_argument(
        "--sessions",
        type=int,
        metavar="N",
        help="sessions at the same time, each with a deposit (1)",
    )


@dataclass(frozen=True)
class NodeChoice:
    """The node provider that file, environment and flags select, with its settings."""

    config: Config
    provider: str
    settings: "NodeSettings"
    env: dict[str, str] = field(repr=False)
    """Contains a key that was given by flag or typed, so `repr` hides it."""
    file: Path | None = None
    """The configuration file that is used."""
    in_file: bool = False
    """Whether that file has the provider."""

    @property
    def provider_config(self) -> ProviderConfig:
        return self.config.providers[self.provider]

    @property
    def state(self) -> Path:
        return nodes.ledger_dir(self.env)

    def print_heading(self) -> None:
        """Print account, network, contract, limits and file on standard error."""
        heading = nodes.describe_payments(self.provider, self.provider_config, self.env)
        source = self.file if self.in_file else "flags and environment"
        for line in [*heading, f"settings from {source}"]:
            print(line, file=sys.stderr)

    def open(self) -> "NodeProvider":
        """Return the provider with its private key, not entered yet."""
        return nodes.open_node(self.provider, self.provider_config, self.env)

    def open_without_key(self) -> "NodeProvider":
        """Return the provider without a key, not entered yet; it can only list hosts."""
        from toolbridge.node.provider import NodeProvider

        return NodeProvider(self.settings, None, state=self.state)


def choose(args: argparse.Namespace, *, paying: bool = True, any_model: bool = False) -> NodeChoice:
    """Return the choice of `args`; raise for an invalid setting and, if `paying`, a missing key.

    With `any_model`, the command is about the account, so `model` need not be set.
    """
    env = with_env_file(os.environ, args.env_file, KEYS)
    config = _config(args, env)
    file = config_file.choose(args.config, env).path
    name = _provider(args.provider, config, file)
    given = config.providers.get(name, ProviderConfig(api=nodes.NODE))
    table = {"model": nodes.ANY_MODEL if any_model else "", **_table(args, given, env)}
    provider_config = msgspec.structs.replace(given, node=table, quirks=_quirks(args, given))
    in_file = name in config.providers
    try:
        settings = nodes.read_node_settings(name, provider_config)
    except ConfigError as error:
        raise _named(error, _sources(args, env, in_file=in_file), in_file=in_file) from None
    if paying and not settings.direct:
        provider_config = _with_key(args, provider_config, env)
        nodes.read_key(name, provider_config, env)
    config = msgspec.structs.replace(
        config,
        providers={**config.providers, name: provider_config},
        map={**config.map, "default": f"{name}/{settings.model}"},
    )
    return NodeChoice(config, name, settings, env, file, in_file)


def _config(args: argparse.Namespace, env: dict[str, str]) -> Config:
    names = {"bind": "host", "port": "port", "key": "key", "log": "log", "thinking": "thinking"}
    given = {setting: getattr(args, flag, None) for flag, setting in names.items()}
    return config_file.load(args.config, env=env, flags=given)


def _provider(given: str | None, config: Config, file: Path | None) -> str:
    """Return the name of the node provider to use; raise `ConfigError` for one that does not exist.

    A misspelled name must not pay with the defaults, so only the default name stands for flags and
    environment, and only if the file has no node provider.
    """
    found = [name for name, one in config.providers.items() if one.api == nodes.NODE]
    if given is None:
        return found[0] if found else nodes.NODE
    if given in found or (given == nodes.NODE and not found and given not in config.providers):
        return given
    if given in config.providers:
        raise ConfigError(
            'is not a node provider; it needs api = "node"', where=f"providers.{given}"
        )
    if found:
        raise ConfigError(f"there is no node provider {given!r}; {file} has {', '.join(found)}")
    why = f"{file} has none" if file else "no configuration file is used"
    raise ConfigError(
        f"there is no node provider {given!r}, because {why}; leave --provider out to use flags and "
        "environment only"
    )


def _sources(args: argparse.Namespace, env: Mapping[str, str], *, in_file: bool) -> dict[str, str]:
    """Return the flag or variable that sets a setting; without a table, every setting's flag."""
    from toolbridge.node.settings import VARIABLES

    as_flags = {name: f"--{name.replace('_', '-')}" for name in _TABLE}
    given = {name: flag for name, flag in as_flags.items() if getattr(args, name) is not None}
    variables = {name: variable for name, variable in VARIABLES.items() if env.get(variable)}
    return ({} if in_file else as_flags) | variables | given


def _named(error: ConfigError, sources: Mapping[str, str], *, in_file: bool) -> ConfigError:
    """Return the error with flags and variables instead of settings of a table that has none."""
    text = error.problem.text
    if text.startswith("there is no setting"):  # only a file can have it
        return error
    first = re.search(r"`(\w+)`", text)
    of_table = in_file and not (first and first[1] in sources)
    text = re.sub(r"`(\w+)`", lambda found: sources.get(found[1], found[0]), text)
    return ConfigError(text, where=error.problem.where if of_table else "")


def _table(
    args: argparse.Namespace, provider_config: ProviderConfig, env: dict[str, str]
) -> dict[str, Json]:
    from_env = nodes.settings_from_env(env)
    flags = {name: getattr(args, name) for name in _TABLE if getattr(args, name) is not None}
    return {**provider_config.node, **from_env, **flags}


def _quirks(args: argparse.Namespace, provider_config: ProviderConfig) -> dict[str, Json]:
    framing = getattr(args, "framing", None)
    return {**provider_config.quirks, **({"framing": framing} if framing else {})}


def _with_key(
    args: argparse.Namespace, provider_config: ProviderConfig, env: dict[str, str]
) -> ProviderConfig:
    """Return `provider_config` with the source of the key; a given key is put into `env`."""
    from toolbridge.node.keys import key_from_text

    if args.private_key is not None:
        key_from_text(args.private_key, "--private-key")
        print(
            "toolbridge: other users of this machine can read a key on a command line; "
            f"use {KEYS[0]} or --key-file instead",
            file=sys.stderr,
        )
        env[KEYS[0]] = args.private_key
        return msgspec.structs.replace(provider_config, key="")
    if args.key_file is not None:
        return msgspec.structs.replace(provider_config, key=f"{nodes.FILE}{args.key_file}")
    if not provider_config.key and not any(env.get(name) for name in KEYS) and sys.stdin.isatty():
        env[KEYS[0]] = getpass.getpass("private key (hidden): ")
        key_from_text(env[KEYS[0]], "the key that you typed")
    return provider_config
