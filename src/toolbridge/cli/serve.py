"""Run the gateway. It prints the settings for Claude Code; other clients use the same address."""

import argparse
import asyncio
import contextlib
import errno
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolbridge.cli import options, state, version
from toolbridge.config import Config
from toolbridge.core.errors import ConfigError, ToolbridgeError
from toolbridge.map_settings import addresses_of, show_chain
from toolbridge.policy.thinking import THINKING_PREFIXES
from toolbridge.routing import nodes

if TYPE_CHECKING:
    from toolbridge.routing.models import ModelRoutes


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_server(parser)
    parser.add_argument(
        "--background", action="store_true", help="start the gateway as a background process"
    )
    parser.add_argument(
        "--local",
        nargs="?",
        const="",
        metavar="GGUF",
        help="serve this model file too; without a file, a small model that is downloaded once "
        "(needs the extra `local`)",
    )
    parser.add_argument("--announce", type=Path, metavar="FILE", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    config, source = options.load_with_source(args)
    options.warn_of_key(args)
    if args.background:
        return _background(args)
    listener = listen(config)
    if args.local is None:
        run_server(config, listener, announce=args.announce, file=source.path)
        return 0
    from toolbridge.cli import local

    with local.served(config, args.local, default=not args.model) as extended:
        run_server(extended, listener, announce=args.announce, file=source.path)
    return 0


def run_server(
    config: Config,
    listener: socket.socket,
    *,
    announce: Path | None = None,
    file: Path | None = None,
    env: Mapping[str, str] = os.environ,
) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is the file to write pid and address to."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, listener, announce, file, env))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory if it is installed; it halves the time of a request."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _background(args: argparse.Namespace) -> int:
    running = state.find()
    if running is not None:
        print(f"a gateway already runs at {running.url} (pid {running.pid})")
        return 0
    names = ("config", "host", "port", "model", "thinking", "log")
    flags = [f"--{n}={v}" for n in names if (v := getattr(args, n)) is not None]
    if args.local is not None:
        flags.append(f"--local={args.local}" if args.local else "--local")
    if args.key:
        os.environ["TOOLBRIDGE_KEY"] = args.key  # other users can read a command line
    # A model may take minutes to download and to load.
    running = state.start_background(flags, wait=10.0 if args.local is None else 600.0)
    print(f"the gateway runs at {running.url} (pid {running.pid}), log in {state.log_file()}")
    print(f"export ANTHROPIC_BASE_URL={running.url}")
    return 0


def listen(config: Config) -> socket.socket:
    """Return a listening socket; raise `ConfigError` if the address cannot be used."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise ConfigError(_why_not(config, error)) from None
    listener.setblocking(False)
    return listener


def _why_not(config: Config, error: OSError) -> str:
    text = f"cannot listen on {config.host}:{config.port} ({error.strerror})"
    if error.errno != errno.EADDRINUSE:
        return f"{text}; choose another address with --host and --port"
    host = "127.0.0.1" if config.host in {"0.0.0.0", "::"} else config.host  # noqa: S104  asked, not bound
    url = f"http://[{host}]:{config.port}" if ":" in host else f"http://{host}:{config.port}"
    if (health := state.healthy(url)) is None or "model" not in health:
        return (
            f"{text}: another program uses the port; choose another with --port N, or any free one "
            "with --port 0"
        )
    running = state.find()
    if running is not None and running.url == url:
        way_out = "stop it with `toolbridge stop`"
    else:
        way_out = f"use it at {url}, or stop it with Ctrl-C in its terminal"
    return (
        f"{text}: a gateway with the model {health['model']} runs there; {way_out}, or choose "
        "another port with --port N"
    )


async def _serve(
    config: Config,
    listener: socket.socket,
    announce: Path | None,
    file: Path | None,
    env: Mapping[str, str],
) -> None:
    import uvicorn

    from toolbridge.server.app import App
    from toolbridge.server.serving import settings

    app = App(config, env)
    url = address(listener)
    if config.log != "off":
        nodes.log_payments()

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            # uvicorn raises the signal again at the end, which would end the process before the
            # pid file is removed and the engine is stopped.
            signals = (signal.SIGINT, signal.SIGTERM)
            before = {number: signal.signal(number, self.handle_exit) for number in signals}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            _spare_collector()
            if announce:
                state.write_pid(state.Running(os.getpid(), url), announce)
            start = await _start(app.gateway.model_routes, url, file)
            payments = _payments(config, env)
            print(banner(config, msgspec.structs.replace(start, payments=payments)), flush=True)

    grace = max(1, round(config.stop_grace))
    with contextlib.suppress(asyncio.CancelledError):
        await Server(settings(app, grace=grace)).serve(sockets=[listener])
    if announce:
        state.forget(announce)


def _spare_collector() -> None:
    """Run the garbage collector less often, and never on the objects that exist at startup.

    A request creates thousands of objects but hardly a reference cycle: with the default
    thresholds the collector takes a tenth of the server's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else shown  # noqa: S104  shown, not bound
    return f"http://{shown}:{port}"


class StartReport(msgspec.Struct, frozen=True):
    """The facts for the banner of a gateway that has started."""

    url: str
    model: str = ""
    found: str = ""
    """How the model was found."""
    window: int = 0
    file: Path | None = None
    problems: Sequence[str] = ()
    payments: Sequence[str] = ()
    """The contract that is paid, and the limits of the payments."""


def _payments(config: Config, env: Mapping[str, str]) -> list[str]:
    lines: list[str] = []
    for name, provider in config.providers.items():
        if provider.api == nodes.NODE:
            with contextlib.suppress(ToolbridgeError):  # it is among the problems
                lines += nodes.describe_payments(name, provider, env)
    return lines


async def _start(model_routes: "ModelRoutes", url: str, file: Path | None) -> StartReport:
    problems = await model_routes.problems()
    window = 0
    if model_routes.default:
        with contextlib.suppress(ToolbridgeError):  # it is among the problems
            window = (await model_routes.route(model_routes.default)).shown_window
    return StartReport(url, model_routes.default, model_routes.found, window, file, problems)


def banner(config: Config, start: StartReport) -> str:
    """Return the text that is printed at startup: address, client settings, model, problems."""
    lines = [
        f"toolbridge {version()} at {start.url}",
        "",
        "  Claude Code:    toolbridge claude",
        "                  or set these variables in any terminal:",
        *(f"                  export {line}" for line in recipe(config, start)),
        "",
        f"  Configuration:  {start.file or 'no configuration file'}",
        f"  Model:          {start.model or 'none'} ({start.found})",
    ]
    named = {name: to for name, to in config.map.items() if name != "default"}
    lines += [f"                  {name} → {show_chain(to)}" for name, to in named.items()]
    if len(chain := addresses_of(config.map.get("default", ""))) > 1:
        lines.append(f"                  default → {show_chain(chain)}")
    routes = [f"{rule.describe()} → {rule.describe_targets()}" for rule in config.routes]
    lines += [f"                  {line}" for line in routes]
    if start.model.startswith("demo/"):
        lines += _about_demo(fixed="default" in config.map)
    lines += [f"  Payments:       {line}" for line in start.payments]
    lines += [f"  PROBLEM:        {problem}" for problem in start.problems]
    lines += ["", *_about_thinking(config), "", "  Stop with Ctrl-C."]
    return "\n".join(lines)


def recipe(config: Config, start: StartReport) -> list[str]:
    """Return the environment variables for Claude Code.

    Claude Code takes the context window of a Claude name from its own tables, so the real name of
    the model must be set.
    """
    lines = [
        f"ANTHROPIC_BASE_URL={start.url}",
        f"ANTHROPIC_AUTH_TOKEN={'<your key>' if config.key else 'any'}",
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1",
    ]
    # The demo model is not set: an Ollama server that starts later becomes the default.
    if start.model and ("default" in config.map or not start.model.startswith("demo/")):
        lines.append(f"ANTHROPIC_MODEL={start.model}")
        if start.window:
            lines.append(f"CLAUDE_CODE_MAX_CONTEXT_TOKENS={start.window}")
    return lines


def _about_demo(*, fixed: bool) -> list[str]:
    names = "every name" if fixed else "Claude names only"
    return [
        f"                  This is the embedded demo model; it answers {names}.",
        "                  For a real model: start Ollama and run `ollama pull qwen3:8b` (it is",
        "                  found automatically), or run `toolbridge serve --local` (a model file),",
        "                  or configure a provider with `toolbridge init`.",
    ]


def _about_thinking(config: Config) -> list[str]:
    rejected = {
        "auto": "answered without thinking if an agent attached it, else rejected (400).",
        "drop": "answered without thinking.",
        "reject": "rejected (400).",
    }[config.thinking]
    return [
        f"  Thinking-capable models: {', '.join(THINKING_PREFIXES)}",
        f"  Thinking requests for other models will be {rejected}",
    ]
