"""Node providers of a gateway: settings, private keys, and opening them.

The package `toolbridge.node` needs libraries of the extra `node`, so this module imports it only
when a node provider is configured.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from typing_extensions import override

from toolbridge.config import ProviderConfig, secret
from toolbridge.core import events as ev
from toolbridge.core.codec import Outgoing, Rules, Target, no_server_tool
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json
from toolbridge.core.messages import Request
from toolbridge.core.printable import printable
from toolbridge.core.quirks import check_quirks
from toolbridge.setting_errors import explain_value
from toolbridge.state_dir import state_dir

if TYPE_CHECKING:
    from toolbridge.node.protocol.encryption import Secret
    from toolbridge.node.provider import NodeProvider
    from toolbridge.node.settings import NodeSettings

NODE = "node"
UNPAID = "nothing is paid"
ANY_MODEL = "0x" + "00" * 32
"""Stands for a model where only the payment matters."""
FILE = "file:"
"""Prefix of `key` in front of the path of a file with the private key."""

_EXTRA = frozenset({"coincurve", "Crypto", "websockets"})
Batch: TypeAlias = list[ev.Event]


class NodeRequestEncoder:
    """Encodes requests for nodes; the counterpart of a codec's request encoder."""

    name = NODE

    @property
    def rules(self) -> Rules:
        from toolbridge.node.protocol.encode_request import RULES

        return RULES

    def completes(self, request: Request, target: Target) -> bool:  # noqa: ARG002 (nodes have no text completion)
        return False

    encode_server_tool = staticmethod(no_server_tool)

    def encode_request(self, request: Request, target: Target) -> Outgoing:
        """Return the prompt; toolbridge cuts at stop sequences, because nodes ignore them."""
        from toolbridge.node.protocol.encode_request import encode_request

        return msgspec.structs.replace(encode_request(request, target), stops=request.stop)


def model_of(provider_config: ProviderConfig) -> str:
    """Return the model of a node provider, as `repo:file` or as a model id."""
    return str(provider_config.node.get("model", ""))


def short_name(model: str) -> str:
    """Return the short name of a model: its file name without `.gguf`."""
    return model.partition(":")[2].removesuffix(".gguf") or model


# ── settings ──


def read_node_settings(name: str, provider_config: ProviderConfig) -> "NodeSettings":
    """Return the settings of a node provider; raise `ConfigError` that names the invalid one."""
    where = f"providers.{name}"
    if provider_config.url:
        raise ConfigError(
            f"a node provider has no `url`; set `host_url` in [{where}.node]", where=where
        )
    read_waits(name, provider_config)
    try:
        from toolbridge.node.settings import read_settings
    except ImportError as error:
        raise _without_extra(error, name) from None
    table = {key: value for key, value in provider_config.node.items() if key != "waits"}
    return _with_chain(read_settings(table, f"{where}.node"), f"{where}.node")


def _with_chain(settings: "NodeSettings", where: str) -> "NodeSettings":
    """Return `settings`; raise `ConfigError` if they need a chain and it is incomplete."""
    try:
        if not settings.direct:
            settings.chain  # noqa: B018  reading it checks it
    except ConfigError as error:
        raise ConfigError(str(error), where=where) from None
    return settings


def check_node_quirks(provider_config: ProviderConfig) -> None:
    """Raise `ConfigError` for a quirk that nodes do not have."""
    from toolbridge.node.protocol.encode_request import QUIRKS

    check_quirks(provider_config.quirks, QUIRKS)
    framing = provider_config.quirks.get("framing", "chatml")
    if framing not in {"chatml", "labelled"}:
        raise ConfigError(
            f'must be "chatml" or "labelled", not {framing!r}', where="quirks.framing"
        )


def _without_extra(error: ImportError, name: str) -> Exception:
    """Return a `ConfigError` if a library of the extra `node` is missing, else `error` itself."""
    if (error.name or "").partition(".")[0] not in _EXTRA:
        return error
    return ConfigError(
        f"providers.{name} is an encrypted node, which needs the extra `node` ({error.name} is "
        "missing). Run `pip install '.[node]'` in the clone of toolbridge, with the Python that "
        "runs it"
    )


def settings_from_env(env: Mapping[str, str]) -> dict[str, Json]:
    """Return the settings of CLAUDE_BRIDGE_* variables, as entries of a `node` table."""
    try:
        from toolbridge.node.settings import from_env
    except ImportError as error:
        raise _without_extra(error, NODE) from None
    return {name: value for name, value in from_env(env).items() if isinstance(value, str | int)}


class _Waits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `node.waits`, in seconds; None for the default."""

    connect: float | None = None
    init: float | None = None
    first: float | None = None
    next: float | None = None
    grace: float | None = None
    total: float | None = None
    pay: float | None = None
    settle: float | None = None


_PAYMENT_WAITS = {"pay": "pay_wait", "settle": "settle_after"}
"""Waits of payments, with the names of `NodeProvider`'s parameters."""


def read_waits(name: str, provider_config: ProviderConfig) -> dict[str, float]:
    """Return the waits that the configuration sets, in seconds."""
    where = f"providers.{name}.node.waits"
    table = provider_config.node.get("waits", {})
    try:
        given = msgspec.convert(table, _Waits)
    except msgspec.ValidationError as error:
        text = explain_value(str(error), table if isinstance(table, dict) else {}, _Waits)
        raise ConfigError(text, where=where) from None
    waits = {
        key: value for key, value in msgspec.structs.asdict(given).items() if value is not None
    }
    if wrong := [key for key, value in waits.items() if not value > 0]:
        raise ConfigError("must be more than 0 seconds", where=f"{where}.{wrong[0]}")
    return waits


def read_key(name: str, provider_config: ProviderConfig, env: Mapping[str, str]) -> "Secret":
    """Return the private key from the file or variable that `key` names, or a known variable.

    A key in the configuration itself is rejected, because every reader of that file could use it.
    """
    from toolbridge.node.keys import find_key, key_from_file, key_from_text

    where = f"providers.{name}.key"
    if provider_config.key.startswith(FILE):
        return key_from_file(Path(provider_config.key.removeprefix(FILE)).expanduser())
    if not provider_config.key:
        return find_key(env)
    given = secret(provider_config.key, env)
    if given == provider_config.key:
        text = 'must not be the key itself; name its source: "$NAME" or "file:~/node.key"'
        raise ConfigError(text, where=where)
    if not given:
        raise ConfigError(f"the variable {provider_config.key} is not set; export it", where=where)
    return key_from_text(given, provider_config.key)


def ledger_dir(env: Mapping[str, str]) -> Path:
    """Return the directory of the ledger; raise `ConfigError` if the environment names none."""
    found = state_dir(env)
    if found is None:
        raise ConfigError(
            "a node provider needs a directory for its ledger; set HOME or XDG_STATE_HOME"
        )
    return found


def open_node(name: str, provider_config: ProviderConfig, env: Mapping[str, str]) -> "NodeProvider":
    """Return the node provider `name`, not entered yet."""
    settings = read_node_settings(name, provider_config)
    from toolbridge.node.provider import NodeProvider
    from toolbridge.node.session.connection import Timeouts

    if settings.direct:
        wallet, state = None, Path()
    else:
        wallet, state = read_key(name, provider_config, env), ledger_dir(env)
    waits = {"connect": provider_config.connect_timeout} | read_waits(name, provider_config)
    payment = {
        parameter: waits.pop(name) for name, parameter in _PAYMENT_WAITS.items() if name in waits
    }
    return NodeProvider(settings, wallet, state=state, waits=Timeouts(**waits), **payment)


def describe_payments(
    name: str, provider_config: ProviderConfig, env: Mapping[str, str]
) -> list[str]:
    """Return account, contract, network, deposit and limits of a node provider, as lines of text."""
    settings = read_node_settings(name, provider_config)
    if settings.direct:
        return [
            f"{name}: uses {settings.host_url} directly with job {settings.job_id}; nothing is paid"
        ]
    from toolbridge.node.funding.caps import cap_in
    from toolbridge.node.provider import LEDGER

    account = open_node(name, provider_config, env).address
    chain, currency = settings.chain, settings.currency
    cap = cap_in(ledger_dir(env) / LEDGER, account, currency)
    return [
        (
            f"{name}: account {account} pays the contract {chain.marketplace} on "
            f"{settings.network or 'a network of the settings'} (chain {chain.chain_id}) through "
            f"{_server(chain.rpc_url)}"
        ),
        (
            f"{name}: {currency.format(settings.deposit_amount)} per session, at most "
            f"{currency.format(settings.limit_amount)} in 24 hours; hard cap of the account: "
            f"{currency.format(cap.day)} per day, {currency.format(cap.job)} per job"
        ),
    ]


def describe_terms(name: str, provider_config: ProviderConfig, env: Mapping[str, str]) -> list[str]:
    """Return where the money of a node provider goes and how much, as lines of text, without a key.

    Variables fill what the table leaves out. An address that the table sets instead of the known
    network's is marked. Raises `ConfigError` for a table that the commands of `node` refuse.
    """
    table = {"model": ANY_MODEL, **settings_from_env(env), **provider_config.node}
    settings = read_node_settings(name, msgspec.structs.replace(provider_config, node=table))
    hosts = [
        *([f"only the host {settings.host}"] if settings.host else []),
        *([f"hosts that may be used: {', '.join(settings.allow)}"] if settings.allow else []),
        *([f"hosts that are not used: {', '.join(settings.deny)}"] if settings.deny else []),
        *([f"the host is reached at {settings.host_url}"] if settings.host_url else []),
    ]
    if settings.direct:
        return [UNPAID, *hosts]
    chain, format_paid = settings.chain, settings.currency.format
    known = settings.network or "no known network"
    places = {
        "pays the contract": ("marketplace", chain.marketplace),
        "finds hosts in the contract": ("registry", chain.registry),
        **(
            {"reads through the contract": ("multicall", chain.multicall)}
            if chain.multicall
            else {}
        ),
        "through the server": ("rpc_url", _server(chain.rpc_url)),
        **({"in the token": ("token", chain.token)} if settings.pay == "token" else {}),
    }
    return [
        f"network {known}, chain {chain.chain_id}",
        *(
            f"{words} {value}{' (set by the file)' if provider_config.node.get(setting) else ''}"
            for words, (setting, value) in places.items()
        ),
        (
            f"{format_paid(settings.deposit_amount)} per session, at most "
            f"{format_paid(settings.limit_amount)} and {settings.daily_gas} ETH of gas in 24 hours, "
            f"{settings.sessions} at the same time, highest price {settings.highest_price}"
        ),
        *(hosts or ["every registered host may be used"]),
    ]


def _server(url: str) -> str:
    """Return host and port of a URL; its path or user may contain a key."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


class _PrintableFormatter(logging.Formatter):
    """Formats lines without control characters, because hosts choose their names and errors."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def log_payments() -> None:
    """Write a line per payment, refund and claim on standard error, with the warnings of nodes."""
    log = logging.getLogger("toolbridge.node")
    if not log.handlers:
        shown = logging.StreamHandler()
        shown.setFormatter(_PrintableFormatter("toolbridge: %(message)s"))
        log.addHandler(shown)
        log.setLevel(logging.INFO)
        log.propagate = False


# ── open providers ──


class Nodes:
    """The node providers of one gateway, each opened with its first request."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._open: dict[str, NodeProvider] = {}
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def open(self, name: str, provider_config: ProviderConfig) -> "NodeProvider":
        """Return the node provider `name`, opened with the first request for it."""
        async with self._opening:
            if name not in self._open:
                opened = open_node(name, provider_config, self._env)
                self._open[name] = await self._stack.enter_async_context(opened)
            return self._open[name]

    async def close(self) -> None:
        """Close all node providers; hosts settle their jobs and refund the rest of the deposits."""
        self._open.clear()
        await self._stack.aclose()
