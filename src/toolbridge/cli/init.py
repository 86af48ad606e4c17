"""Write a toolbridge.toml in which the main settings are explained, and allow it.

It sets a default model only if Ollama on this machine has one; otherwise an Ollama that is started
later is found automatically.
"""

import argparse
import asyncio
import os
from pathlib import Path

from toolbridge import providers, trust
from toolbridge.cli.files import check_writable
from toolbridge.cli.models import list_models
from toolbridge.config import Config
from toolbridge.config_file import FILE_NAME
from toolbridge.core.errors import ConfigError
from toolbridge.store import private_files

TEMPLATE = """\
# The main settings, with their defaults; docs/reference/settings.md lists all.
# Order: this file < environment (TOOLBRIDGE_PORT, TOOLBRIDGE_KEY …) < flags.
# After a change, run `toolbridge allow` to permit it and `toolbridge doctor` to check it.

host = "127.0.0.1"
port = 3456
# key = "$TOOLBRIDGE_KEY"      # clients must send it; required if host is not loopback
thinking = "auto"              # for models that cannot think: "auto", "drop" or "reject"
heal = 2                       # 0 strict, 1 syntax, 2 by schema, 3 guesses

# Model names: an exact name, a tier (opus, sonnet, haiku), or `default` for every other name.
# Without a default, the first model of the first provider below serves the names that agents send
# (claude-…, gpt-…, gemini-…); without providers, that of Ollama on this machine.
[map]
{default}
# sonnet = "ollama/qwen3:8b"
# "claude-opus-5" = "anthropic/claude-opus-5"

# Providers. Built in: {known}.
# Their keys are read from the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY …).
# [providers.ollama]
# api = "ollama"
# url = "http://127.0.0.1:11434"

# [providers.anthropic]
# api = "anthropic"
# url = "https://api.anthropic.com"
# key = "$ANTHROPIC_API_KEY"

# The capabilities and options of one model.
# [models."ollama/qwen3:8b"]
# window = 65536               # context window in tokens, sent to Ollama as num_ctx
# thinking = true
# sequential_tools = false     # true for models that lose track of parallel calls
# options = {{ keep_alive = "30m", temperature = 0.6 }}
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", type=Path, default=Path(FILE_NAME), help="the file to write")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(args: argparse.Namespace) -> int:
    if args.path.exists() and not args.force:
        raise ConfigError(
            f"{args.path} exists; overwrite it with --force, or write another with --path"
        )
    check_writable(args.path)
    found, _ = asyncio.run(list_models(Config()))
    # The demo model is never written: it would stay the default when a real model is available.
    default = (
        '# default = "ollama/qwen3:8b"' if found.startswith("demo/") else f'default = "{found}"'
    )
    text = TEMPLATE.format(default=default, known=", ".join(providers.names()))
    private_files.write(args.path, text.encode())  # keys may be written into it
    try:
        trust.allow(args.path, os.environ)
    except ConfigError as error:
        raise ConfigError(
            f"wrote {args.path}, which is not allowed yet: {error}; then run `toolbridge allow "
            f"{args.path}`"
        ) from None
    named = "" if args.path == Path(FILE_NAME) else f" --config {args.path}"
    print(
        f"wrote {args.path} and allowed it; check it with `toolbridge doctor{named}`, "
        f"then run `toolbridge serve{named}`"
    )
    return 0
