"""Run the gateway. It prints the settings for Claude Code; other clients use the same address."""

import argparse
import asyncio
import contextlib
import errno
import gc
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from toolbridge.cli import options, processes, state, systemd
from toolbridge.cli.map_checks import misspelled_names
from toolbridge.cli.server_tool_checks import describe_tools
from toolbridge.cli.store_checks import check_state, describe_servers
from toolbridge.config import Config
from toolbridge.config_file import ConfigSource
from toolbridge.core.errors import ConfigError, ToolbridgeError
from toolbridge.map_settings import addresses_of, show_chain
from toolbridge.policy.thinking import THINKING_PREFIXES
from toolbridge.routing import nodes
from toolbridge.server import garbage, listeners
from toolbridge.server.listeners import Inheritance, Listeners
from toolbridge.store.notices import worker_notices
from toolbridge.version import __version__

if TYPE_CHECKING:
    from toolbridge.routing.models import ModelRoutes
    from toolbridge.server.app import App
    from toolbridge.server.reload import ConfigFile


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
    parser.add_argument(
        "--workers", type=int, metavar="N", help="serve the port with N processes (1)"
    )
    parser.add_argument("--announce", type=Path, metavar="FILE", help=argparse.SUPPRESS)


@dataclass(frozen=True)
class ServerProcess:
    """What a process of the gateway needs beside its configuration."""

    announce: Path | None = None
    """The file to write pid and address to."""
    path: Path | None = None
    """The configuration file that the banner shows."""
    file: "ConfigFile | None" = None
    """The configuration to read again; None for one that cannot be."""
    inherited: Inheritance | None = None
    successor: Callable[[], processes.Child] | None = None
    """Starts the process that replaces this one."""
    start_wait: float = processes.START_WAIT
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)


def run(args: argparse.Namespace) -> int:
    inherited = listeners.take_inheritance(os.environ)
    config, source = options.load_with_source(args, unattended=args.background)
    if inherited is None:
        options.warn_of_key(args)
    if args.background:
        return _background(args)
    listening = open_listeners(config, inherited)
    if inherited is None and config.workers > 1:
        from toolbridge.cli.supervisor import supervise

        return supervise(args, config, source, listening, address(listening.http))
    if args.local is None:
        return _run(args, config, source, listening, inherited)
    from toolbridge.cli import local

    with local.served(config, args.local, default=not args.model) as extend:
        return _run(args, config, source, listening, inherited, extend)


def _run(
    args: argparse.Namespace,
    config: Config,
    source: ConfigSource,
    listening: Listeners,
    inherited: Inheritance | None,
    extend: Callable[[Config], Config] = lambda config: config,
) -> int:
    from toolbridge.server.reload import ConfigFile

    def complete(loaded: Config) -> Config:
        return extend(listeners.as_bound(loaded, listening) if listening.given else loaded)

    given = {"TOOLBRIDGE_KEY": args.key} if args.key else {}  # others can read a command line
    process = ServerProcess(
        announce=args.announce,
        path=source.path,
        file=ConfigFile(source, named=args.config, flags=options.flags(args), extend=complete),
        inherited=inherited,
        successor=lambda: processes.Child(
            processes.flags_of(args), listening, env={**os.environ, **given}
        ),
        start_wait=processes.START_WAIT if args.local is None else processes.LOCAL_WAIT,
    )
    run_server(complete(config), listening, process)
    return 0


def open_listeners(config: Config, inherited: Inheritance | None) -> Listeners:
    """Return the listening sockets: those of the parent process, of systemd, or new ones."""
    if inherited is not None:
        return listeners.adopt(inherited)
    if (passed := listeners.from_systemd(os.environ, os.getpid())) is not None:
        return passed
    http = listen(config)
    if not config.tls.cert:
        return Listeners(http)
    tls = config.tls
    secure = msgspec.structs.replace(config, host=tls.host or config.host, port=tls.port)
    try:
        return Listeners(http, listen(secure, "`tls.host` and `tls.port`"))
    except ConfigError:
        http.close()
        raise


def run_server(config: Config, listening: Listeners, process: ServerProcess) -> None:
    """Serve until SIGINT or SIGTERM."""
    gc.disable()  # until the start is complete: `garbage.spare_start`
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, listening, process))


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
        return _report_running(args, running)
    flags = [flag for flag in processes.flags_of(args) if not flag.startswith("--announce=")]
    if args.key:
        os.environ["TOOLBRIDGE_KEY"] = args.key  # other users can read a command line
    # A model may take minutes to download and to load.
    running = state.start_background(
        flags, wait=state.START_WAIT if args.local is None else processes.LOCAL_WAIT
    )
    print(f"the gateway runs at {running.url} (pid {running.pid}), log in {state.log_file()}")
    print(f"export ANTHROPIC_BASE_URL={running.url}")
    return 0


def _report_running(args: argparse.Namespace, running: state.Running) -> int:
    """Print where the gateway runs; raise `ConfigError` if it was asked for at another port."""
    runs = f"a gateway already runs at {running.url} (pid {running.pid})"
    if args.port and args.port != urlsplit(running.url).port:  # 0 is any port
        raise ConfigError(
            f"{runs}, and not at port {args.port}; stop it with `toolbridge stop` and run this "
            "command again, or use it there"
        )
    print(runs)
    names = ("host", "model", "thinking", "log", "record", "workers", "local", "key")
    if any(getattr(args, name, None) is not None for name in names):
        print(
            "toolbridge: it keeps the options that it was started with; to apply others, run "
            "`toolbridge stop` and this command again",
            file=sys.stderr,
        )
    return 0


def listen(config: Config, names: str = "--host and --port") -> socket.socket:
    """Return a listening socket; raise `ConfigError` if the address cannot be used.

    `names` are the options for another address.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise ConfigError(_why_not(config, error, names)) from None
    listener.setblocking(False)
    return listener


def _why_not(config: Config, error: OSError, names: str) -> str:
    text = f"cannot listen on {config.host}:{config.port} ({error.strerror})"
    if error.errno != errno.EADDRINUSE or names.startswith("`tls"):
        return f"{text}; choose another address with {names}"
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


async def _serve(config: Config, listening: Listeners, process: ServerProcess) -> None:
    from toolbridge.server.app import App
    from toolbridge.server.reload import restart_fault
    from toolbridge.server.running import GatewayServer, ServerHooks, WorkerPart

    announced = state.Announcement(address(listening.http), process.announce, config)
    if config.log != "off":
        nodes.log_payments()

    async def on_start(app: App) -> None:
        garbage.spare_start()
        if process.inherited is None:
            announced.write()
        await _report_start(app, listening, process)
        await processes.report_ready(process.inherited)
        if process.inherited is not None:
            announced.write()  # `toolbridge restart` waits for it: only this process accepts now
        systemd.notify("READY=1", f"MAINPID={os.getpid()}")

    async def replace(stop_accepting: Callable[[], None]) -> str:
        if process.inherited is not None and process.inherited.worker:
            return ""  # the supervisor has started the new worker
        if process.successor is None:
            return "it was started by a command that cannot be repeated; stop it and start it again"
        fault = restart_fault(server.settings, process.file)
        fault = fault or await process.successor().wait_until_ready(
            process.start_wait, stop_accepting
        )
        if fault:
            announced.write(fault=fault)
        else:
            announced.hand_over()
        return fault

    app, inherited, worker = App(config, process.env), process.inherited, None
    if inherited is not None and inherited.worker:
        from toolbridge.server.worker_loads import open_load

        shared = Path(inherited.metrics)
        app.metrics.share(shared)
        worker_notices.share(shared)
        load = open_load(shared, inherited.worker)
        worker = WorkerPart(inherited.worker, inherited.parent, load)
    hooks = ServerHooks(on_start, announced.count_reload, replace)
    server = GatewayServer(app, listening, hooks, file=process.file, worker=worker)
    with contextlib.suppress(asyncio.CancelledError):
        await server.serve()
    announced.remove()


async def _report_start(app: "App", listening: Listeners, process: ServerProcess) -> None:
    """Print the banner; a process that replaces another prints one line."""
    url, inherited = address(listening.http), process.inherited
    troubles = await check_state(app.gateway.store, app.gateway.state)
    if inherited is not None and not inherited.shows_banner:
        if not inherited.worker:
            print(f"toolbridge {__version__} at {url}: pid {os.getpid()} serves now", flush=True)
        return
    start = await _start(app.gateway.model_routes, url, process.path)
    secure = "" if listening.tls is None else address(listening.tls, "https")
    payments = _payments(app.config, process.env)
    start = msgspec.structs.replace(
        start,
        problems=[*start.problems, *map("; ".join, misspelled_names(app.config)), *troubles],
        payments=payments,
        secure_url=secure,
        keyed=app.guard.needs_key,
        servers=describe_servers(app.config, process.env),
    )
    print(banner(app.config, start), flush=True)


def address(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else shown  # noqa: S104  shown, not bound
    return f"{scheme}://{shown}:{port}"


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
    secure_url: str = ""
    """The address with TLS."""
    keyed: bool = False
    """Whether every request needs a key."""
    servers: Sequence[str] = ()
    """Where store and ledger are, if they are on servers."""


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
        f"toolbridge {__version__} at {start.url}",
        "",
        "  Claude Code:    toolbridge claude",
        "                  or set these variables in any terminal:",
        *(f"                  export {line}" for line in recipe(config, start)),
        "",
        f"  Page:           {start.url}/ui",
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
    if start.secure_url:
        lines.insert(1, f"{' ' * len(f'toolbridge {__version__}')} at {start.secure_url}")
    lines += [f"  {line}" for line in start.servers]
    lines += [f"  {line}" for line in describe_tools(config.server_tools, os.environ)]
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
        f"ANTHROPIC_AUTH_TOKEN={'<your key>' if start.keyed else 'any'}",
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
