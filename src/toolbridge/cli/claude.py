"""Run Claude Code through the gateway. Arguments after the options are passed to Claude Code.

Starts a gateway if none runs in the background, and stops it at the end. Claude Code is configured
with the address of the gateway and with the model, its context window and its price, so that it
shows the right values and compacts in time.
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
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from toolbridge.cli import options, state
from toolbridge.cli.claude_prices import price_arguments, rates_for
from toolbridge.config import secret
from toolbridge.core.errors import ConfigError
from toolbridge.store.keys import PREFIX

# Claude Code rejects a smaller value for the window at which it compacts.
LEAST_COMPACT_WINDOW = 100_000
TIERS = ("opus", "sonnet", "haiku", "fable")
"""Claude Code's own names for models; the gateway resolves each to a model."""

OWN = ("--config", "--model", "--claude")

_END_WAIT = 10.0
"""Seconds for Claude Code to end after SIGTERM, until it is killed."""
_HEALTH_WAIT = 10.0


class ServedModel(msgspec.Struct, frozen=True):
    """The model that the gateway serves for a name."""

    address: str
    window: int = 0

    @property
    def name(self) -> str:
        """The name for Claude Code: its own for Anthropic's models, else the whole address.

        Claude Code takes the window and the price of a Claude name from its own tables, so other
        models must not have one.
        """
        provider, _, model = self.address.partition("/")
        return model if provider == "anthropic" else self.address


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument("--model", metavar="MODEL", help="the model (the default model)")
    parser.add_argument("--claude", metavar="PATH", help="Claude Code's command (claude in PATH)")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="passed to Claude Code")


def split(given: list[str]) -> list[str]:
    """Return `given` with `--` before the first argument that is for Claude Code."""
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
            "@anthropic-ai/claude-code`, or give its path with --claude"
        )
    wanted, args.model = args.model or "", None
    config = options.load(args)
    leaving = _Leaving()
    signal.signal(signal.SIGTERM, leaving)
    signal.signal(signal.SIGHUP, leaving)
    with _gateway(args.config, leaving) as running:
        key = secret(config.key) or _created_key(os.environ) or "toolbridge"
        served = ask_for(running.url, wanted or _default(running.url), key)
        tiers = {} if served.name != served.address else _tiers(running.url, key)
        given = args.args[1:] if args.args[:1] == ["--"] else args.args
        rates = rates_for(config, {served.name: served.address, **{t: t for t in tiers.values()}})
        prices, managed = price_arguments(command, given, rates)
        env = environment({**managed, **os.environ}, running.url, key, served, tiers)
        return _run_client([command, *prices, *given], env, leaving)


def _created_key(env: Mapping[str, str]) -> str:
    """Return the user's key of the gateway in `ANTHROPIC_AUTH_TOKEN`; empty for any other token."""
    token = env.get("ANTHROPIC_AUTH_TOKEN", "")
    return token if token.startswith(PREFIX) else ""


class _Leaving:
    """A signal as an exception, so that the gateway and Claude Code are stopped as well."""

    def __init__(self) -> None:
        self._asked = 0
        self._held = False

    def __call__(self, number: int, _: object) -> None:
        self._asked = number
        if not self._held:
            raise SystemExit(128 + number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Put the exception off until the block has ended.

        What is being started in it would not be stopped: nothing refers to it yet.
        """
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._asked:
            raise SystemExit(128 + self._asked)


@contextmanager
def _gateway(config: Path | None, leaving: _Leaving) -> Iterator[state.Running]:
    """Yield the gateway in the background, or one that runs for as long as this command."""
    running = state.find()
    if running is not None:
        yield running
        return
    # Its own pid file: other commands must not use a gateway that stops with this command.
    file = state.pid_file(f"claude-{os.getpid()}")
    flags = [f"--config={config}"] if config else []
    with ExitStack() as started:
        with leaving.held():
            running = state.start_background([*flags, "--port=0"], file=file)
            started.callback(state.stop, running, file=file)
        yield running


def _run_client(command: list[str], env: Mapping[str, str], leaving: _Leaving) -> int:
    # Ctrl-C is for Claude Code, which interrupts an answer with it. SIG_IGN would be inherited by
    # the client; a Python function is not.
    signal.signal(signal.SIGINT, lambda *_: None)
    with ExitStack() as started:
        with leaving.held():
            try:
                client = subprocess.Popen(command, env=env)  # noqa: S603  the user's own command
            except OSError as error:
                raise ConfigError(
                    f"{command[0]} does not start ({error.strerror}); give Claude Code's path with "
                    "--claude"
                ) from None
            started.callback(_end, client)
        status = client.wait()
    return status if status >= 0 else 128 - status


def _end(client: "subprocess.Popen[bytes]") -> None:
    """End a client that still runs; the gateway serves until it has ended."""
    if client.poll() is not None:
        return
    client.terminate()
    try:
        client.wait(_END_WAIT)
    except subprocess.TimeoutExpired:
        client.kill()
        client.wait()


def environment(
    env: Mapping[str, str], url: str, key: str, served: ServedModel, tiers: Mapping[str, str]
) -> dict[str, str]:
    """Return Claude Code's environment; the user's own settings of models and windows are kept."""
    ours = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": key,
        # Claude Code would send both, and a key for Anthropic's API must not go to another server.
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_MODEL": served.name,
    }
    kept = {
        # The attribution line differs between requests, so model servers could not cache the prefix.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        # `/model` lists the gateway's models.
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
    """Return the gateway's default model; a Claude name without one."""
    model = (state.healthy(url, _HEALTH_WAIT) or {}).get("model")
    return model if isinstance(model, str) and model else "claude-sonnet-4-5"


def _tiers(url: str, key: str) -> dict[str, str]:
    """Return the model that each of Claude Code's own names resolves to."""
    found: dict[str, str] = {}
    for tier in TIERS:
        try:
            found[tier] = ask_for(url, tier, key).name
        except ConfigError:
            continue  # no model for it; Claude Code reports that if the user selects it
    return found


def ask_for(url: str, model: str, key: str) -> ServedModel:
    """Return the model that the gateway serves for a name; raise with the gateway's error text."""
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
            body = error.read(65_536)
        raise ConfigError(
            _message(body) or f"the gateway at {url} answered {error.code}; see {state.log_file()}"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the gateway at {url} did not answer /v1/models: {error}; see {state.log_file()}"
        ) from None


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return ""
