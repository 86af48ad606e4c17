"""Encrypted nodes among the providers: their settings, their keys, and who talks to them.

What talks to a node needs libraries that only the extra `node` brings, so this file
loads it when a node is configured and not before.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from toolbridge.config import ProviderConfig, secret
from toolbridge.core import events as ev
from toolbridge.core.codec import Outgoing, Rules, Target, check_quirks
from toolbridge.core.errors import ConfigError
from toolbridge.core.json import Json
from toolbridge.core.messages import Request
from toolbridge.state_dir import state_dir

if TYPE_CHECKING:
    from toolbridge.node.protocol.encryption import Secret
    from toolbridge.node.provider import NodeProvider
    from toolbridge.node.settings import NodeSettings

NODE = "node"
FILE = "file:"
"""In front of a path, in `key`: the file that holds the key."""

_EXTRA = frozenset({"coincurve", "Crypto", "websockets"})
Batch: TypeAlias = list[ev.Event]


class NodeRequestEncoder:
    """How a request is said to a node."""

    name = NODE

    @property
    def rules(self) -> Rules:
        from toolbridge.node.protocol.encode_request import RULES

        return RULES

    def completes(self, request: Request, target: Target) -> bool:  # noqa: ARG002 (a node only chats)
        return False

    def encode_request(self, request: Request, target: Target) -> Outgoing:
        """Return the prompt. A node takes no stop sequences, so all of them are ours to find."""
        from toolbridge.node.protocol.encode_request import encode_request

        return msgspec.structs.replace(encode_request(request, target), stops=request.stop)


def model_of(provider_config: ProviderConfig) -> str:
    """Return the one model that a node provider pays for, as `repo:file` or by its hash."""
    return str(provider_config.node.get("model", ""))


def short_name(model: str) -> str:
    """Return what people call a model: its file, without the ending."""
    return model.partition(":")[2].removesuffix(".gguf") or model


# ── settings ──


def read_node_settings(name: str, provider_config: ProviderConfig) -> "NodeSettings":
    """Return the settings of a node provider; raise `ConfigError` that names the wrong one."""
    where = f"providers.{name}"
    if provider_config.url:
        raise ConfigError(f"takes no `url`; [{where}.node] takes `host_url`", where=where)
    read_waits(name, provider_config)
    try:
        from toolbridge.node.settings import read_settings
    except ImportError as error:
        raise _without_extra(error, name) from None
    table = {key: value for key, value in provider_config.node.items() if key != "waits"}
    return _on_known_chain(read_settings(table, f"{where}.node"), f"{where}.node")


def _on_known_chain(settings: "NodeSettings", where: str) -> "NodeSettings":
    """Return `settings`; raise when they need a chain and do not say enough of it."""
    try:
        if not settings.direct:
            settings.chain  # noqa: B018  reading it checks it
    except ConfigError as error:
        raise ConfigError(str(error), where=where) from None
    return settings


def check_node_quirks(provider_config: ProviderConfig) -> None:
    from toolbridge.node.protocol.encode_request import QUIRKS

    check_quirks(provider_config.quirks, QUIRKS)
    framing = provider_config.quirks.get("framing", "chatml")
    if framing not in {"chatml", "labelled"}:
        raise ConfigError(f'is "chatml" or "labelled", not {framing!r}', where="quirks.framing")


def _without_extra(error: ImportError, name: str) -> Exception:
    """Return what to say of a missing library; the error itself when it is no library's."""
    if (error.name or "").partition(".")[0] not in _EXTRA:
        return error
    return ConfigError(
        f"providers.{name} is an encrypted node, which needs the extra `node` ({error.name} is "
        "missing). Run `pip install '.[node]'` in the clone of toolbridge, with the Python that "
        "runs it"
    )


def settings_from_env(env: Mapping[str, str]) -> dict[str, Json]:
    """Return what the variables of a node's bridge say, as entries of a node's table."""
    try:
        from toolbridge.node.settings import from_env
    except ImportError as error:
        raise _without_extra(error, NODE) from None
    return {name: value for name, value in from_env(env).items() if isinstance(value, str | int)}


class _Waits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds; what is not said stays as it is."""

    connect: float | None = None
    init: float | None = None
    first: float | None = None
    next: float | None = None
    grace: float | None = None
    pay: float | None = None
    settle: float | None = None


_PAYING = {"pay": "wait", "settle": "after"}
"""What a payment and its end wait for, by the place's own names."""


def read_waits(name: str, provider_config: ProviderConfig) -> dict[str, float]:
    """Return how long to wait for a node, as far as the configuration says."""
    where = f"providers.{name}.node.waits"
    try:
        given = msgspec.convert(provider_config.node.get("waits", {}), _Waits)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error), where=where) from None
    said = {key: value for key, value in msgspec.structs.asdict(given).items() if value is not None}
    if wrong := [key for key, value in said.items() if not value > 0]:
        raise ConfigError("must be more than 0 seconds", where=f"{where}.{wrong[0]}")
    return said


def read_key(name: str, provider_config: ProviderConfig, env: Mapping[str, str]) -> "Secret":
    """Return the wallet's key from the file or the variable that `key` names, or a known variable.

    A key that stands in the configuration itself would be read by whoever reads that file.
    """
    from toolbridge.node.keys import find_key, key_from_file, key_from_text

    where = f"providers.{name}.key"
    if provider_config.key.startswith(FILE):
        return key_from_file(Path(provider_config.key.removeprefix(FILE)).expanduser())
    if not provider_config.key:
        return find_key(env)
    given = secret(provider_config.key, env)
    if given == provider_config.key:
        text = 'must not be the key itself; say where it is: "$NAME" or "file:~/node.key"'
        raise ConfigError(text, where=where)
    if not given:
        raise ConfigError(f"{provider_config.key} is not set", where=where)
    return key_from_text(given, provider_config.key)


def ledger_dir(env: Mapping[str, str]) -> Path:
    """Return where the account of what was spent is kept; raise when there is no such place."""
    found = state_dir(env)
    if found is None:
        raise ConfigError("a node needs a directory for its ledger; set HOME or XDG_STATE_HOME")
    return found


def open_node(name: str, provider_config: ProviderConfig, env: Mapping[str, str]) -> "NodeProvider":
    """Return who talks to a provider's nodes, yet to be entered."""
    settings = read_node_settings(name, provider_config)
    from toolbridge.node.provider import NodeProvider
    from toolbridge.node.session.connection import Timeouts

    if settings.direct:
        wallet, state = None, Path()
    else:
        wallet, state = read_key(name, provider_config, env), ledger_dir(env)
    said = {"connect": provider_config.connect_timeout} | read_waits(name, provider_config)
    more = {f"{word}_{kind}": said.pop(word) for word, kind in _PAYING.items() if word in said}
    return NodeProvider(settings, wallet, state=state, waits=Timeouts(**said), **more)


# ── talking ──


class Nodes:
    """The nodes of one gateway, each opened with the first request for it."""

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
        """Hang up everywhere; hosts settle, and what they did not earn comes back."""
        self._open.clear()
        await self._stack.aclose()
