# ruff: noqa: N999  the file has the name of its command
"""Print the configuration file of LiteLLM, claude-code-router or Portkey as a toolbridge.toml.

What has no equivalent is listed on standard error, with its place in the file. Keys are not copied:
the names of environment variables take their place.
"""

import argparse
import os
import sys
from pathlib import Path

from toolbridge import config_file, trust
from toolbridge.cli.files import check_writable, read_file
from toolbridge.config_file import FILE_NAME
from toolbridge.core.errors import ConfigError
from toolbridge.core.printable import printable
from toolbridge.importers import IMPORTERS, import_source, read_source
from toolbridge.importers.draft import ConfigDraft
from toolbridge.importers.write_toml import write_toml
from toolbridge.routing.providers import find_providers
from toolbridge.store import private_files


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="config.yaml or config.json")
    parser.add_argument(
        "--from", dest="gateway", choices=list(IMPORTERS), default="", help="whose file it is"
    )
    parser.add_argument(
        "--write", action="store_true", help="write ./toolbridge.toml, and allow it"
    )
    parser.add_argument("--path", type=Path, default=Path(FILE_NAME), help="the file to write")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(args: argparse.Namespace) -> int:
    try:
        text = read_file(args.file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{args.file} is not UTF-8: {error}") from None
    name = str(args.file)
    gateway, draft = import_source(read_source(text, name), args.gateway, name)
    if not draft:
        _print_notes(draft)
        raise ConfigError(f"{name} has no provider and no model that can be carried")
    toml = write_toml(draft, f"Imported from a file of {gateway} by `toolbridge import`.")
    _check(toml, args.path)
    if args.write:
        _write(args.path, toml, force=args.force)
    else:
        sys.stdout.write(toml)
    _print_notes(draft)
    print(f"{len(draft.notes)} notes; check the rest with `toolbridge doctor`", file=sys.stderr)
    return 0


def _print_notes(draft: ConfigDraft) -> None:
    for note in draft.notes:
        print(f"note  {printable(str(note))}", file=sys.stderr)


def _check(toml: str, path: Path) -> None:
    """Raise `ConfigError` if the result cannot be used, so that no broken file is written."""
    source = config_file.ConfigSource(path, toml.encode(), may_spend=False)
    find_providers(config_file.read(source, env={}), {})


def _write(path: Path, toml: str, *, force: bool) -> None:
    if path.exists() and not force:
        raise ConfigError(f"{path} exists; overwrite it with --force, or write another with --path")
    check_writable(path)
    private_files.write(path, toml.encode())
    trust.allow(path, os.environ)
    print(f"wrote {path} and allowed it", file=sys.stderr)
