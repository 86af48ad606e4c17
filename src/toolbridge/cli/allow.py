"""Allow the toolbridge.toml of a directory. It is used there until its content changes.

A file in the working directory can set providers, addresses and payments, so toolbridge uses it only
after you have allowed its content. A file given with --config or TOOLBRIDGE_CONFIG, and the one in
your configuration directory, need no permission. The command prints where a file sends requests and
money; a file with a fault is not allowed.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from toolbridge import config_file, trust
from toolbridge.config import Config, ProviderConfig
from toolbridge.config_file import FILE_NAME
from toolbridge.core.close_names import close_names
from toolbridge.core.errors import ConfigError, ToolbridgeError
from toolbridge.core.printable import printable
from toolbridge.map_settings import addresses_of, show_chain
from toolbridge.routing import nodes
from toolbridge.routing.providers import DEMO, find_providers
from toolbridge.setting_errors import line_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, default=Path(FILE_NAME), metavar="FILE",
                        help=f"the file (./{FILE_NAME})")  # fmt: skip
    parser.add_argument("--forget", action="store_true", help="take the permission back")


def run(args: argparse.Namespace) -> int:
    path: Path = args.file / FILE_NAME if args.file.is_dir() else args.file
    if args.forget:
        known = trust.forget(path, os.environ)
        print(f"{path.resolve()} {'is no longer used' if known else 'was not allowed'}")
        return 0
    if not path.exists():
        raise ConfigError(f"there is no file {path}; create one with `toolbridge init`")
    file = trust.allow(path, os.environ)
    try:
        # Read through the list that was just written, so that exactly the allowed content is shown.
        content = trust.read_allowed(file, os.environ)
        config = config_file.read(config_file.ConfigSource(file, content))
        _check_providers(config, file, content)
        lines = [f"allowed {file}", *_contents(config)]
    except ToolbridgeError:
        trust.forget(file, os.environ)
        raise
    print("\n".join(printable(line) for line in lines))
    return 0


def _check_providers(config: Config, file: Path, content: bytes) -> None:
    """Raise `ConfigError` for a provider, model or rule with which `toolbridge serve` would not start."""
    try:
        _known_providers(config)
    except ConfigError as error:
        line = line_of(content, str(error))
        raise ConfigError(f"{file}: {error}" + (f" (at line {line})" if line else "")) from None


def _known_providers(config: Config) -> dict[str, ProviderConfig]:
    """Return every provider; raise `ConfigError` for one that `toolbridge serve` rejects.

    A node's table may lack what `toolbridge node serve` takes from its flags; `describe_terms` checks it.
    """
    stand_in = ProviderConfig(api=DEMO)
    checked = {
        name: stand_in if provider.api == nodes.NODE else provider
        for name, provider in config.providers.items()
    }
    return find_providers(msgspec.structs.replace(config, providers=checked), os.environ)


def _contents(config: Config) -> Iterator[str]:
    """Yield the parts of a file that the user should check."""
    for name, provider in config.providers.items():
        is_node = provider.api == nodes.NODE
        terms = nodes.describe_terms(name, provider, os.environ) if is_node else []
        paid = " and may spend money" if terms and terms[0] != nodes.UNPAID else ""
        yield f"  provider {name}: {provider.url or provider.api or 'built-in'}{paid}"
        yield from (f"    {line}" for line in terms)
        if provider.token_command:
            yield f"  provider {name} runs {' '.join(provider.token_command)}"
    known = _known_providers(config)
    for name, entry in config.map.items():
        yield f"  {name} → {show_chain(entry)}"
        for address in addresses_of(entry):
            prefix, slash, _ = address.partition("/")
            # It may be a part of the model's own name: `meta-llama/…`.
            if slash and prefix not in known and (near := close_names(prefix, known, cutoff=0.7)):
                yield f"    there is no provider {prefix!r}; did you mean {near[0]!r}?"
    for rule in config.routes:
        yield f"  {rule.describe()} → {rule.describe_targets()}"
    if tools := (*config.stream.tools, *config.stream.roots, *config.stream.databases.values()):
        yield f"  structured streams may use {', '.join(tools)}"
