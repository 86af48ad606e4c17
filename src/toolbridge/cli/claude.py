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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from toolbridge.cli import options, state
from toolbridge.config import secret
from toolbridge.core.errors import ConfigError

# Claude Code refuses a smaller value than this for the window at which it compacts.
LEAST_COMPACT_WINDOW = 100_000


OWN = ("--config", "--model", "--claude")


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument("--model", metavar="MODEL", help="the name to ask for (claude-sonnet-4-5)")
    parser.add_argument("--claude", metavar="PATH", help="Claude Code's command (from PATH)")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="for Claude Code; -- may precede")


def split(given: list[str]) -> list[str]:
    """Return `given` with `--` before the first word that is not ours: the rest is the client's."""
    at = 0
    while at < len(given):
        if given[at] in OWN:
            at += 2
        elif given[at] in {"-h", "--help"} or given[at].startswith(tuple(f"{n}=" for n in OWN)):
            at += 1
        else:
            break
    return given if given[at : at + 1] in ([], ["--"]) else [*given[:at], "--", *given[at:]]


def run(args: argparse.Namespace) -> int:
    wanted = args.claude or os.environ.get("TOOLBRIDGE_CLAUDE") or "claude"
    command = shutil.which(wanted)
    if command is None:
        raise ConfigError(
            f"Claude Code was not found as {wanted!r}; install it with `npm install -g "
            "@anthropic-ai/claude-code`, or name it with --claude"
        )
    model, args.model = args.model or "claude-sonnet-4-5", None
    config = options.load(args)
    # Whoever ends this command ends what it has started: leaving by an exception tidies up.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, _leave)
    with _gateway(args.config) as running:
        key = secret(config.key) or "toolbridge"
        env = environment(os.environ, running.url, key, model, window(running.url, model, key))
        given = args.args[1:] if args.args[:1] == ["--"] else args.args
        return _run_client([command, *given], env)


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


@contextmanager
def _gateway(config: Path | None) -> Iterator[state.Running]:
    """Yield the gateway in the background, or one that runs for as long as this command."""
    running = state.find()
    if running is not None:
        yield running
        return
    # It is announced to nobody else: another session must not lean on what ends with this one.
    file = state.pid_file(f"claude-{os.getpid()}")
    flags = [f"--config={config}"] if config else []
    running = state.start_background([*flags, "--port=0"], file=file)
    try:
        yield running
    finally:
        state.stop(running, file=file)


def _run_client(command: list[str], env: Mapping[str, str]) -> int:
    # Ctrl-C belongs to Claude Code: it interrupts an answer, not this. To ignore it here would be
    # inherited by the client; a function that does nothing is not.
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        client = subprocess.Popen(command, env=env)  # noqa: S603  the user's own command
    except OSError as error:
        raise ConfigError(f"{command[0]} does not start ({error.strerror})") from None
    try:
        status = client.wait()
    finally:
        if client.poll() is None:
            client.terminate()
    return status if status >= 0 else 128 - status


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
