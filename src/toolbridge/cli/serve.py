"""Run the gateway. Clients of the Anthropic Messages API can use it at once."""

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from toolbridge.cli import options, state, version
from toolbridge.config import Config
from toolbridge.core.errors import ConfigError
from toolbridge.policy.thinking import THINKING_PREFIXES


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_server(parser)
    parser.add_argument("--background", action="store_true", help="go on after this command ends")
    parser.add_argument(
        "--local",
        nargs="?",
        const="",
        metavar="GGUF",
        help="serve this model file too, or a small one that is fetched once (toolbridge[local])",
    )
    parser.add_argument("--announce", type=Path, metavar="FILE", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    config = options.load(args)
    explicit = args.port is not None or config.port != Config().port
    options.warn_of_key(args)
    if args.background:
        return _background(args)
    listener = listen(config, explicit=explicit)
    if args.local is None:
        run_server(config, listener, announce=args.announce)
        return 0
    from toolbridge.cli import local

    with local.served(config, args.local, default=not args.model) as extended:
        run_server(extended, listener, announce=args.announce)
    return 0


def run_server(
    config: Config,
    listener: socket.socket,
    *,
    announce: Path | None = None,
    env: Mapping[str, str] = os.environ,
) -> None:
    """Serve until a signal comes; `announce` is a file that says where."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, listener, announce, env))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory where there is one: it halves what a request costs."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _background(args: argparse.Namespace) -> int:
    running = state.find()
    if running is not None:
        print(f"toolbridge already runs at {running.url} (pid {running.pid})")
        return 0
    names = ("config", "host", "port", "model", "thinking", "log")
    flags = [f"--{n}={v}" for n in names if (v := getattr(args, n)) is not None]
    if args.local is not None:
        flags.append(f"--local={args.local}" if args.local else "--local")
    if args.key:
        os.environ["TOOLBRIDGE_KEY"] = args.key  # not on the command line, where others can read it
    # A model may take minutes to fetch and to load.
    running = state.start_background(flags, wait=10.0 if args.local is None else 600.0)
    print(f"toolbridge runs at {running.url} (pid {running.pid}), log in {state.log_file()}")
    print(f"export ANTHROPIC_BASE_URL={running.url}")
    return 0


def listen(config: Config, *, explicit: bool) -> socket.socket:
    """Return a listening socket: on the port asked for, or on the next free one if none was."""
    tries = 1 if explicit else 20
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    for port in range(config.port, min(config.port + tries, 65536)):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((config.host, port))
        except OSError as error:
            listener.close()
            reason = error.strerror
            continue
        listener.listen(1024)
        listener.setblocking(False)
        return listener
    raise ConfigError(
        f"cannot listen on {config.host}:{config.port} ({reason}); --host and --port choose"
    )


async def _serve(
    config: Config, listener: socket.socket, announce: Path | None, env: Mapping[str, str]
) -> None:
    import uvicorn

    from toolbridge.server.app import App
    from toolbridge.server.serving import settings

    app = App(config, env)
    url = address(listener)

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            # uvicorn raises the signal once more in the end, which would end the process before
            # anybody has tidied up.
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
            print(banner(config, url, app.gateway.roster.default, app.gateway.roster.found))
            sys.stdout.flush()

    grace = max(1, round(config.stop_grace))
    with contextlib.suppress(asyncio.CancelledError):
        await Server(settings(app, grace=grace)).serve(sockets=[listener])
    if announce:
        state.forget(announce)


def _spare_collector() -> None:
    """Let the collector of cycles look less often, and never at what was there from the start.

    A request makes hardly a cycle, but thousands of objects: with the usual limits the collector
    takes a tenth of all that the server does.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else shown  # noqa: S104  shown, not bound
    return f"http://{shown}:{port}"


def banner(config: Config, url: str, model: str, found: str) -> str:
    """Return what a person needs to know to use this server."""
    lines = [
        f"toolbridge {version()} at {url}",
        "",
        f"  Claude Code:  export ANTHROPIC_BASE_URL={url}",
        f"                export ANTHROPIC_AUTH_TOKEN={'<your key>' if config.key else 'any'}",
        "                (or let toolbridge do both: toolbridge claude)",
        "",
        f"  Model:        {model or 'none'} ({found})",
    ]
    named = {name: to for name, to in config.map.items() if name != "default"}
    lines += [f"                {name} → {to}" for name, to in named.items()]
    if model.startswith("demo/"):
        lines += [
            "                This is the embedded demo model. For a real one: start Ollama and",
            "                `ollama pull qwen3:8b`, or `toolbridge serve --local` (a model file), or",
            "                `toolbridge init` and name a provider.",
        ]
    rejected = {
        "auto": "answered without it if the client asks by itself, else rejected (400).",
        "drop": "answered without it.",
        "reject": "rejected (400).",
    }[config.thinking]
    lines += [
        "",
        f"  Thinking-capable models: {', '.join(THINKING_PREFIXES)}",
        f"  Thinking requests for other models will be {rejected}",
        "",
        "  Stop with Ctrl-C.",
    ]
    return "\n".join(lines)
