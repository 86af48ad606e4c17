"""Flags that the commands of `toolbridge node` share, and the settings that result from them.

Precedence: defaults, configuration file, environment, flags; later ones replace earlier ones.
"""

import argparse
import getpass
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolbridge import config as configuration
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
_ANY_MODEL = "0x" + "00" * 32


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

    @property
    def provider_config(self) -> ProviderConfig:
        return self.config.providers[self.provider]

    @property
    def state(self) -> Path:
        return nodes.ledger_dir(self.env)

    def print_heading(self) -> None:
        """Print account, network, contract, limits and file on standard error."""
        heading = nodes.describe_payments(self.provider, self.provider_config, self.env)
        for line in [*heading, f"settings from {self.file or 'flags and environment'}"]:
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
    name = args.provider or _first_node(config)
    given = config.providers.get(name, ProviderConfig(api=nodes.NODE))
    if given.api != nodes.NODE:
        raise ConfigError(
            'is not a node provider; it needs api = "node"', where=f"providers.{name}"
        )
    table = {"model": _ANY_MODEL if any_model else "", **_table(args, given, env)}
    provider_config = msgspec.structs.replace(given, node=table, quirks=_quirks(args, given))
    settings = nodes.read_node_settings(name, provider_config)
    if paying and not settings.direct:
        provider_config = _with_key(args, provider_config, env)
        nodes.read_key(name, provider_config, env)
    config = msgspec.structs.replace(
        config,
        providers={**config.providers, name: provider_config},
        map={**config.map, "default": f"{name}/{settings.model}"},
    )
    return NodeChoice(config, name, settings, env, configuration.choose(args.config, env).path)


def _config(args: argparse.Namespace, env: dict[str, str]) -> Config:
    names = {"bind": "host", "port": "port", "key": "key", "log": "log", "thinking": "thinking"}
    given = {setting: getattr(args, flag, None) for flag, setting in names.items()}
    return configuration.load(args.config, env=env, flags=given)


def _first_node(config: Config) -> str:
    found = (
        name
        for name, provider_config in config.providers.items()
        if provider_config.api == nodes.NODE
    )
    return next(found, nodes.NODE)


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
    if args.private_key:
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
    return provider_config
