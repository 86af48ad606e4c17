"""Write a toolbridge.toml with every setting explained, ready to be changed, and allow it.

A model is named in it only if this machine's Ollama has one; without, an Ollama that starts later
is found by itself.
"""

import argparse
import asyncio
import os
from pathlib import Path

from toolbridge import providers, trust
from toolbridge.cli.models import list_models
from toolbridge.config import FILE_NAME, Config
from toolbridge.core.errors import ConfigError
from toolbridge.store import private_files

TEMPLATE = """\
# Every setting is shown with its default.
# Order: this file < environment (TOOLBRIDGE_PORT, TOOLBRIDGE_KEY …) < flags.
# After a change, `toolbridge allow` lets toolbridge use it; `toolbridge doctor` checks it.

host = "127.0.0.1"
port = 3456
# key = "$TOOLBRIDGE_KEY"      # clients must send it; required to listen beyond this machine
thinking = "auto"              # for models that cannot think: "auto", "drop" or "reject"
heal = 2                       # 0 strict, 1 syntax, 2 by schema, 3 guesses

# Which model answers which name: an exact name, a tier (opus, sonnet, haiku), or `default` for
# every other name. Without a default, the first model of this machine's Ollama that can call
# tools answers to the names of agents (claude-…, gpt-…, gemini-…).
[map]
{default}
# sonnet = "ollama/qwen3:8b"
# "claude-opus-5" = "anthropic/claude-opus-5"

# Providers. Known without a table: {known}.
# Their keys are read from the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY …).
# [providers.ollama]
# api = "ollama"
# url = "http://127.0.0.1:11434"

# [providers.anthropic]
# api = "anthropic"
# url = "https://api.anthropic.com"
# key = "$ANTHROPIC_API_KEY"

# What is known, or wanted, of one model.
# [models."ollama/qwen3:8b"]
# window = 65536               # tokens of context, sent to Ollama as num_ctx
# thinking = true
# sequential_tools = false     # true for models that lose track of parallel calls
# options = {{ keep_alive = "30m", temperature = 0.6 }}
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", type=Path, default=Path(FILE_NAME), help="where to write it")
    parser.add_argument("--force", action="store_true", help="overwrite what is there")


def run(args: argparse.Namespace) -> int:
    if args.path.exists() and not args.force:
        raise ConfigError(f"{args.path} exists; --force overwrites it, --path writes another")
    found, _ = asyncio.run(list_models(Config()))
    # The demo model is never pinned: it would go on to answer when there is something better.
    default = (
        '# default = "ollama/qwen3:8b"' if found.startswith("demo/") else f'default = "{found}"'
    )
    text = TEMPLATE.format(default=default, known=", ".join(providers.names()))
    private_files.write(args.path, text.encode())  # keys may be written into it
    trust.allow(args.path, os.environ)
    print(
        f"wrote {args.path} and allowed it; `toolbridge serve` uses it, `toolbridge doctor` checks it"
    )
    return 0
