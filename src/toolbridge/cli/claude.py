"""Run Claude Code through the gateway; everything after the options is Claude Code's own.

Starts a gateway if none runs in the background, and stops it again at the end. Claude Code learns
where the gateway is and how much context the model has, so that it compacts in time.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping

from toolbridge.cli import options, state
from toolbridge.config import secret
from toolbridge.core.errors import ConfigError

# Claude Code refuses a smaller value than this for the window at which it compacts.
LEAST_COMPACT_WINDOW = 100_000


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument("--model", metavar="MODEL", help="the name to ask for (claude-sonnet-4-5)")
    parser.add_argument("--claude", metavar="PATH", help="Claude Code's command (from PATH)")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="for Claude Code, after --")


def run(args: argparse.Namespace) -> int:
    command = args.claude or os.environ.get("TOOLBRIDGE_CLAUDE") or shutil.which("claude")
    if not command:
        raise ConfigError(
            "Claude Code was not found; install it with `npm install -g "
            "@anthropic-ai/claude-code`, or name it with --claude"
        )
    model, args.model = args.model or "claude-sonnet-4-5", None
    config = options.load(args)
    running = state.find()
    own = running is None
    if running is None:
        flags = [f"--config={args.config}"] if args.config else []
        running = state.start_background([*flags, "--port=0"])
    key = secret(config.key) or "toolbridge"
    env = environment(os.environ, running.url, key, model, window(running.url, model, key))
    given = args.args[1:] if args.args[:1] == ["--"] else args.args
    try:
        # Ctrl-C belongs to Claude Code: it interrupts an answer, not this.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return subprocess.run([command, *given], env=env, check=False).returncode  # noqa: S603
    finally:
        if own:
            state.stop(running)


def environment(
    env: Mapping[str, str], url: str, key: str, model: str, tokens: int
) -> dict[str, str]:
    """Return Claude Code's environment. What the user has set about the window stays."""
    ours = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": key,
        # Both set would both be sent, and a key for the real API must not leave for elsewhere.
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_MODEL": model,
    }
    kept = {
        # A line that differs between requests would keep a model server from reusing its prefix.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    }
    if tokens:
        kept["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(tokens)
        kept["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(max(tokens, LEAST_COMPACT_WINDOW))
    return {**kept, **env, **ours}


def window(url: str, model: str, key: str) -> int:
    """Return how many tokens of context `model` has; 0 where the gateway does not know."""
    ask = urllib.request.Request(  # noqa: S310  the gateway's own address
        f"{url}/v1/models/{urllib.parse.quote(model, safe='')}",
        headers={"x-api-key": key, "anthropic-version": "2023-06-01"},
    )
    try:
        with urllib.request.urlopen(ask, timeout=3) as answer:  # noqa: S310
            return int(json.load(answer).get("max_input_tokens", 0))
    except (OSError, ValueError):
        return 0
