"""What the parts of `toolbridge node` have in common: flags, and what they amount to.

The file goes before the defaults, the environment before the file, flags before the environment.
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
    "daily_limit", "sessions", "seed",
)  # fmt: skip
"""Flags that are settings of a node by the same name."""


def add(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument("--provider", metavar="NAME", help="which node provider of the file")
    parser.add_argument("--env-file", type=Path, metavar="FILE", help="variables to read from it")
    keys = parser.add_argument_group("the key that pays")
    keys.add_argument("--private-key", metavar="HEX", help="works; others here can read it")
    keys.add_argument("--key-file", type=Path, metavar="FILE", help="one that only you can read")
    whom = parser.add_argument_group("model and host")
    whom.add_argument("--model", metavar="REPO:FILE", help="the model (CLAUDE_BRIDGE_MODEL)")
    whom.add_argument("--host", metavar="ADDRESS", help="only this host (CLAUDE_BRIDGE_HOST)")
    whom.add_argument("--host-url", metavar="URL", help="where that host is")
    whom.add_argument("--host-key", metavar="HEX", help="its public key; with --host-url: no chain")
    whom.add_argument("--mode", choices=("auto", "cheapest", "reliable", "fastest"))
    whom.add_argument("--seed", type=int, help="makes the pick of a host repeatable")
    chain = parser.add_argument_group("chain and money")
    chain.add_argument("--chain-id", type=int, metavar="N", help="must be the chain's own (84532)")
    chain.add_argument("--rpc-url", metavar="URL", help="a server of that chain")
    chain.add_argument("--pay", choices=("native", "token"), help="what to pay with (native)")
    chain.add_argument("--deposit", metavar="AMOUNT", help="for one session (0.0002)")
    chain.add_argument("--daily-limit", metavar="AMOUNT", help="for all deposits of a day (0.002)")
    chain.add_argument("--sessions", type=int, metavar="N", help="at once, each paid for (1)")


@dataclass(frozen=True)
class NodeChoice:
    """What the configuration, the environment and the flags amount to."""

    config: Config
    provider: str
    settings: "NodeSettings"
    env: dict[str, str] = field(repr=False)
    """Holds the key where that was given by hand, so it is never shown."""
    file: Path | None = None
    """The configuration file in force."""

    @property
    def provider_config(self) -> ProviderConfig:
        return self.config.providers[self.provider]

    @property
    def state(self) -> Path:
        return nodes.ledger_dir(self.env)

    def open(self) -> "NodeProvider":
        """Return who talks to the nodes, with the key that pays."""
        return nodes.open_node(self.provider, self.provider_config, self.env)

    def look(self) -> "NodeProvider":
        """Return who talks to the nodes, without a key: enough to look around."""
        from toolbridge.node.provider import NodeProvider

        return NodeProvider(self.settings, None, state=self.state)


def choose(args: argparse.Namespace, *, paying: bool = True) -> NodeChoice:
    """Return what `args` choose; raise at once for a setting or, when `paying`, a key amiss."""
    env = with_env_file(os.environ, args.env_file, KEYS)
    config = _config(args, env)
    name = args.provider or _first_node(config)
    given = config.providers.get(name, ProviderConfig(api=nodes.NODE))
    if given.api != nodes.NODE:
        raise ConfigError('is no node: it needs api = "node"', where=f"providers.{name}")
    provider_config = msgspec.structs.replace(
        given, node=_table(args, given, env), quirks=_quirks(args, given)
    )
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
    """Return `provider_config` with `key` saying where the key is; one given by hand goes into `env`."""
    if args.private_key:
        print(
            "toolbridge: others on this machine can read a key on a command line; "
            f"{KEYS[0]} or --key-file is safer",
            file=sys.stderr,
        )
        env[KEYS[0]] = args.private_key
        return msgspec.structs.replace(provider_config, key="")
    if args.key_file is not None:
        return msgspec.structs.replace(provider_config, key=f"{nodes.FILE}{args.key_file}")
    if not provider_config.key and not any(env.get(name) for name in KEYS) and sys.stdin.isatty():
        env[KEYS[0]] = getpass.getpass("private key (it is not shown): ")
    return provider_config
