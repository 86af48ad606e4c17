"""Look for what is wrong with the setup, and say what to do about it."""

import argparse
import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from toolbridge.cli import options, state, version
from toolbridge.config import Config, find, secret
from toolbridge.core.errors import ToolbridgeError
from toolbridge.server.auth import Guard
from toolbridge.server.roster import Roster
from toolbridge.upstream.http import Upstream


@dataclass(frozen=True)
class Finding:
    good: bool | None
    """None for what is worth knowing but neither good nor bad."""
    what: str
    to_do: str = ""

    def __str__(self) -> str:
        mark = {True: "ok  ", False: "BAD ", None: "note"}[self.good]
        return f"{mark}  {self.what}" + (f"\n      → {self.to_do}" if self.to_do else "")


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)


def run(args: argparse.Namespace) -> int:
    findings = list(examine(args))
    for finding in findings:
        print(finding)
    bad = sum(finding.good is False for finding in findings)
    print(f"\n{'all is well' if not bad else f'{bad} to mend'}")
    return 1 if bad else 0


def examine(args: argparse.Namespace) -> Iterator[Finding]:
    yield Finding(True, f"toolbridge {version()}, Python {sys.version.split()[0]}")
    try:
        config = options.load(args)
        Guard(config, secret(config.key))
    except ToolbridgeError as error:
        yield Finding(False, f"the configuration: {error}", "mend it, or `toolbridge init --force`")
        return
    found = args.config or find()
    yield Finding(True, f"configuration: {found or 'none, the defaults hold'}")
    yield _port(config)
    yield from asyncio.run(_models(config))
    yield from _keys(config)
    yield _claude_code()


def _port(config: Config) -> Finding:
    running = state.find()
    if running is not None:
        return Finding(True, f"a gateway runs at {running.url}")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((config.host, config.port))
        except OSError as error:
            return Finding(
                None,
                f"port {config.port} cannot be used ({error.strerror})",
                "serve takes the next free one; --port chooses",
            )
    return Finding(True, f"port {config.port} is free")


async def _models(config: Config) -> list[Finding]:
    async with Upstream() as upstream:
        try:
            roster = Roster(config, upstream)
            await roster.look_around()
        except ToolbridgeError as error:
            return [Finding(False, f"providers: {error}")]
        found = [Finding(True, f"default model: {roster.default or 'none'} ({roster.found})")]
        if roster.default.startswith("demo/"):
            to_do = "for a real one: start Ollama and `ollama pull qwen3:8b`, or `toolbridge init`"
            found.append(Finding(None, "the embedded demo model answers", to_do))
        named = dict.fromkeys(["default", *config.map]) if roster.default else {}
        found += [await _reach(roster, config.map.get(n, roster.default), n) for n in named]
        return found


async def _reach(roster: Roster, address: str, name: str) -> Finding:
    try:
        route = await roster.route(address)
    except ToolbridgeError as error:
        return Finding(False, f"{name} → {address}: {error}")
    can = route.target.capabilities
    shown = f", can {', '.join(sorted(can))}" if can is not None else ""
    window = f", {route.target.window} tokens" if route.target.window else ""
    if can is not None and "tools" not in can:
        return Finding(None, f"{name} → {address}{window}{shown}", "this model cannot call tools")
    return Finding(True, f"{name} → {address}{window}{shown}")


def _keys(config: Config) -> Iterator[Finding]:
    for name, place in config.providers.items():
        if place.key and not secret(place.key):
            yield Finding(False, f"providers.{name}: {place.key} is not set", "export it")


def _claude_code() -> Finding:
    command = shutil.which("claude")
    if command is None:
        return Finding(
            None, "Claude Code is not installed", "npm install -g @anthropic-ai/claude-code"
        )
    try:
        shown = subprocess.run(  # noqa: S603  found on the user's own PATH
            [command, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(None, f"Claude Code does not start: {error}")
    return Finding(True, f"Claude Code {shown.stdout.strip()}")
