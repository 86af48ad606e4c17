"""Run Claude Code through the gateway; everything after the options is Claude Code's own.

Starts a gateway if none runs in the background, and stops it again at the end. Claude Code learns
where the gateway is, which model answers, how much context that has and what it costs, so that it
shows the truth and compacts in time.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from toolbridge.cli import options, state
from toolbridge.cli.claude_prices import price_arguments, rates_for
from toolbridge.config import secret
from toolbridge.core.errors import ConfigError

# Claude Code refuses a smaller value than this for the window at which it compacts.
LEAST_COMPACT_WINDOW = 100_000
TIERS = ("opus", "sonnet", "haiku", "fable")
"""Claude Code's own names for models; each can be told which model it means."""

OWN = ("--config", "--model", "--claude")


class ServedModel(msgspec.Struct, frozen=True):
    """What the gateway serves for a name."""

    address: str
    window: int = 0

    @property
    def name(self) -> str:
        """The name for Claude Code: its own for Anthropic's models, else the whole address.

        It takes the window and the price of a Claude name from its own tables, so that another
        model must not go by one.
        """
        provider, _, model = self.address.partition("/")
        return model if provider == "anthropic" else self.address


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument("--model", metavar="MODEL", help="the model to use (the default)")
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
    wanted, args.model = args.model or "", None
    config = options.load(args)
    # Whoever ends this command ends what it has started: leaving by an exception tidies up.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, _leave)
    with _gateway(args.config) as running:
        key = secret(config.key) or "toolbridge"
        served = ask_for(running.url, wanted or _default(running.url), key)
        tiers = {} if served.name != served.address else _tiers(running.url, key)
        given = args.args[1:] if args.args[:1] == ["--"] else args.args
        rates = rates_for(config, {served.name: served.address, **{t: t for t in tiers.values()}})
        prices, managed = price_arguments(command, given, rates)
        env = environment({**managed, **os.environ}, running.url, key, served, tiers)
        return _run_client([command, *prices, *given], env)


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
    env: Mapping[str, str], url: str, key: str, served: ServedModel, tiers: Mapping[str, str]
) -> dict[str, str]:
    """Return Claude Code's environment. What the user has set about models and windows stays."""
    ours = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": key,
        # Both set would both be sent, and a key for the real API must not leave for elsewhere.
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_MODEL": served.name,
    }
    kept = {
        # A line that differs between requests would keep a model server from reusing its prefix.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        # `/model` lists what the gateway offers.
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
    }
    kept |= {f"ANTHROPIC_DEFAULT_{tier.upper()}_MODEL": name for tier, name in tiers.items()}
    if served.name == served.address:
        # Otherwise `/model` offers a window of a million tokens for every model.
        kept["CLAUDE_CODE_DISABLE_1M_CONTEXT"] = "1"
    if served.window:
        kept["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(served.window)
        kept["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(max(served.window, LEAST_COMPACT_WINDOW))
    return {**kept, **env, **ours}


def _default(url: str) -> str:
    """Return the model that serves without a name; a Claude name where there is none."""
    model = (state.healthy(url) or {}).get("model")
    return model if isinstance(model, str) and model else "claude-sonnet-4-5"


def _tiers(url: str, key: str) -> dict[str, str]:
    """Return what each of Claude Code's own names leads to."""
    found: dict[str, str] = {}
    for tier in TIERS:
        try:
            found[tier] = ask_for(url, tier, key).name
        except ConfigError:
            continue  # nothing serves it here; Claude Code says so if it is chosen
    return found


def ask_for(url: str, model: str, key: str) -> ServedModel:
    """Return what the gateway serves for `model`; raise with its own words when it does not."""
    ask = urllib.request.Request(  # noqa: S310  the gateway's own address
        f"{url}/v1/models/{urllib.parse.quote(model, safe='')}",
        headers={"x-api-key": key, "anthropic-version": "2023-06-01"},
    )
    try:
        with urllib.request.urlopen(ask, timeout=10) as answer:  # noqa: S310
            address = answer.headers.get("x-toolbridge-model") or model
            return ServedModel(address, int(json.load(answer).get("max_input_tokens", 0)))
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(65_536)
        raise ConfigError(_message(said) or f"the gateway answered {error.code}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"the gateway at {url} did not say what it serves: {error}") from None


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return ""
