"""Requests whose server tools the gateway runs: from the settings to the answer.

`Gateway` asks for a plan before it sends a request. Without one, everything is as if there were no
such settings: nothing is opened, and the modules of the tools are not loaded.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbridge.config import Config
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Loss, Request, Tool
from toolbridge.core.server_tools import (
    McpConnection,
    McpListing,
    ServerResult,
    ServerToolError,
    ServerToolKind,
)
from toolbridge.core.shared_tools import once_per_list
from toolbridge.policy.native_tools import translated_tools
from toolbridge.routing.attempts import AnswerAttempts
from toolbridge.routing.exchange_trace import ExchangeTrace
from toolbridge.routing.providers import runs_server_tools
from toolbridge.routing.route import Route
from toolbridge.store.keys import KeyRecord

if TYPE_CHECKING:
    from toolbridge.policy.server_tool_plan import ServerToolPlan
    from toolbridge.routing.charge import InnerCharges
    from toolbridge.routing.model_search import AskSearcher
    from toolbridge.routing.server_tool_answer import (
        DirectAnswer,
        PassCharges,
        RunServerTool,
        ServerToolAnswer,
    )
    from toolbridge.tools.server_tool_runner import ServerToolRunner

KEY_FILE = "server_tools.key"
_KEY_BYTES = 32
ALL_KINDS: frozenset[ServerToolKind] = frozenset(
    {"web_search", "web_fetch", "tool_search", "code_execution", "mcp"}
)


class GatewayTools:
    """The server tools of one gateway."""

    def __init__(
        self, config: Config, env: Mapping[str, str], state: Path | None, ask: "AskSearcher"
    ) -> None:
        self._settings = config.server_tools
        self._ask = ask
        """Sends a query to a model that searches itself."""
        self._earlier: list[GatewayTools] = []
        """The tools by earlier settings, which running answers still use."""
        self._users = 0
        """Requests that may use the tools."""
        self._is_old = False
        """Whether a reload has replaced these tools."""
        self._ending: asyncio.Task[None] | None = None
        self._env = env
        self._state = state
        self._runner: ServerToolRunner | None = None
        self._key = b""

    @property
    def runner(self) -> "ServerToolRunner":
        if self._runner is None:
            from toolbridge.tools.server_tool_runner import ServerToolRunner

            self._runner = ServerToolRunner(self._settings, self._env)
        return self._runner

    def run_with(self, meter: "InnerCharges | None") -> "RunServerTool":
        """Return the function that runs the tools of one request, which `meter` charges."""
        from toolbridge.routing.model_search import search_by_model

        search = partial(search_by_model, self._ask, meter)
        return partial(self.runner.run, model_search=search)

    def renewed(self, config: Config, ask: "AskSearcher") -> "GatewayTools":
        """Return the tools by other settings; connections are kept if they are the same."""
        if config.server_tools == self._settings:
            self._ask = ask
            return self
        tools = GatewayTools(config, self._env, self._state, ask)
        tools._key = self._key
        self._is_old = True
        self._end_if_unused()
        tools._earlier = [one for one in (*self._earlier, self) if one.is_open]
        return tools

    @property
    def is_open(self) -> bool:
        """Whether there may be connections or processes that are not closed yet."""
        ending = self._ending is not None and not self._ending.done()
        return self._runner is not None or ending

    def __enter__(self) -> None:
        """Keep connections and processes open for one request, after a reload too."""
        self._users += 1

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if self._is_old:
            self._end_if_unused()

    def _end_if_unused(self) -> None:
        """After a reload, end connections and processes with the last request that uses them."""
        if self._is_old and not self._users and self._runner is not None:
            runner, self._runner = self._runner, None
            self._ending = asyncio.create_task(runner.close())

    async def close(self) -> None:
        if self._ending is not None:
            await self._ending
        if self._runner is not None:
            await self._runner.close()
        for one in self._earlier:
            await one.close()

    def _offered(self, route: Route, key: KeyRecord | None) -> tuple[str, ...]:
        """Return the labels of MCP servers whose tools this caller gets with this model."""
        return tuple(
            label
            for label, server in self._settings.mcp.items()
            if server.offer
            and server.enabled
            and _matches(route.address, server.offer_models)
            and _matches("" if key is None else key.name, server.offer_keys)
        )

    def wants(self, request: Request, route: Route, key: KeyRecord | None) -> bool:
        """Return whether the gateway may have to run tools for `request`."""
        if self._settings.mcp and self._offered(route, key):
            return True
        kinds = _kinds(request.tools) if request.tools else None
        return bool(kinds and kinds & (self.runner.kinds - _native(request, route)))

    async def plan(
        self, request: Request, route: Route, key: KeyRecord | None, *, agent: bool
    ) -> "tuple[ServerToolPlan | None, tuple[Loss, ...]]":
        """Return how the gateway runs the tools of `request`, None if it runs none, and the losses."""
        if not self.wants(request, route, key):
            return None, ()
        from toolbridge.history.server_parts import with_unsealed
        from toolbridge.policy.direct_fetch import direct_addresses
        from toolbridge.policy.server_tool_plan import permitted_plan, plan_server_tools

        native = _native(request, route)
        runs = self.runner.kinds
        labels = self._offered(route, key)
        with_named = "mcp" in runs - native
        listings, losses = await self._listings(request, labels, with_named=with_named)
        request = with_unsealed(request, self._seal_key())
        found = plan_server_tools(request, native, runs, listings)
        if found is not None and key is not None:
            found, removed = permitted_plan(found, key.name, key.scopes)
            losses += removed
        if found is None or ((listed := direct_addresses(found, agent=agent)) and not listed[1]):
            return None, losses
        return replace(found, listed=_shown(request, listings)), losses + found.losses

    async def _listings(
        self, request: Request, labels: tuple[str, ...], *, with_named: bool
    ) -> tuple[dict[str, McpListing], tuple[Loss, ...]]:
        """Return the tools of the MCP servers for a request, by the labels of the servers."""
        from toolbridge.policy.server_tool_plan import approvable

        wanted: dict[str, McpConnection | None] = dict.fromkeys(labels)
        for tool in request.tools if with_named else ():
            if tool.server is not None and tool.server.kind == "mcp":
                wanted[tool.server.server] = tool.server.mcp
        found: dict[str, McpListing] = {}
        losses: list[Loss] = []
        for label, named in wanted.items():
            listing = await self.runner.listing(label, named)
            if isinstance(listing, ServerToolError):
                losses.append(Loss("tools", f"MCP server {label!r}: {listing.text}"))
            else:
                found[label], withheld = approvable(label, listing, request.origin)
                losses += withheld
        return found, tuple(losses)

    def direct(
        self,
        plan: "ServerToolPlan",
        trace: ExchangeTrace,
        meter: "InnerCharges | None",
        *,
        agent: bool,
    ) -> "DirectAnswer | None":
        """Return the answer to an agent's search request; None for any other request."""
        from toolbridge.policy.direct_search import DirectSearch, direct_query
        from toolbridge.routing.server_tool_answer import DirectAnswer

        found = direct_query(plan, agent=agent)
        if found is None or self._settings.web_search.summarize:
            return None
        search = DirectSearch(*found, plan.request.model, Ids(trace.seed + b"search"))
        return DirectAnswer(search, self.run_with(meter), trace, self._settings.timeout)

    def answer(
        self,
        plan: "ServerToolPlan",
        open_pass: Callable[[Request], AnswerAttempts],
        charges: "tuple[PassCharges, InnerCharges | None]",
        trace: ExchangeTrace,
        *,
        agent: bool,
    ) -> "ServerToolAnswer":
        """Return the answer in which the gateway runs the tools of `plan`.

        `charges` are those of its passes, and of the other models that its tools use.
        """
        from toolbridge.policy.direct_fetch import direct_addresses
        from toolbridge.policy.direct_search import direct_query
        from toolbridge.policy.server_tool_budget import LoopLimits
        from toolbridge.policy.server_tool_loop import ServerToolLoop
        from toolbridge.routing.server_tool_answer import ServerToolAnswer

        settings = self._settings
        limits = LoopLimits(settings.max_uses, settings.max_passes, settings.tool_search.count)
        loop = ServerToolLoop(plan, Ids(trace.seed + b"tools"), self._seal_key(), limits)
        if found := direct_query(plan, agent=agent):
            offered, query = found
            loop.begin_with(offered, {"query": query})
        elif listed := direct_addresses(plan, agent=agent):
            for address in listed[1]:
                loop.begin_with(listed[0], {"url": address}, needed=True)
        return ServerToolAnswer(
            loop,
            open_pass,
            self.run_with(charges[1]),
            charges=charges[0],
            trace=trace,
            seconds=settings.timeout,
        )

    def _seal_key(self) -> bytes:
        """Return the key of sealed results, which every process of the gateway uses."""
        self._key = self._key or _read_key(self._state)
        return self._key


@once_per_list
def _kinds(tools: tuple[Tool, ...]) -> frozenset[ServerToolKind]:
    """Return the kinds of the server tools among `tools`."""
    return frozenset(tool.server.kind for tool in tools if tool.server is not None)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _native(request: Request, route: Route) -> frozenset[ServerToolKind]:
    """Return the kinds of tools that the provider of `route` runs for this request itself.

    A provider of another API runs those that its codec can declare (`policy.native_tools`).
    """
    if runs_server_tools(route.provider_config, request.origin):
        return ALL_KINDS
    api = route.provider_config.api
    if api == request.origin:
        return ALL_KINDS & route.target.server_tools
    translated = translated_tools(request, route.request_encoder, route.target)
    own = (tool.server for tool in translated.tools if tool.hosted and tool.origin == api)
    return frozenset(server.kind for server in own if server is not None)


def _shown(request: Request, listings: Mapping[str, McpListing]) -> tuple[ServerResult, ...]:
    """Return the listings that the answer has to show.

    OpenAI Responses: `mcp_list_tools` comes once in a conversation, for each server that a request
    names.
    """
    if request.origin != "openai_responses":
        return ()
    parts = (part for turn in request.turns for part in turn.content)
    known = {one.server for one in parts if isinstance(one, ServerResult) and not one.name}
    named = [tool.server.server for tool in request.tools if tool.server is not None]
    return tuple(
        ServerResult(f"list_{label}", "mcp", listings[label], server=label)
        for label in dict.fromkeys(named)
        if label in listings and label not in known
    )


def _read_key(state: Path | None) -> bytes:
    """Return the key in the state directory; create it first, readable by the user alone."""
    if state is None:
        return os.urandom(_KEY_BYTES)
    file = state / KEY_FILE
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(os.urandom(_KEY_BYTES))
    except FileExistsError:
        pass
    except OSError:
        return os.urandom(_KEY_BYTES)
    found = file.read_bytes()
    # Another process may have created the file and not written it yet.
    return found if len(found) == _KEY_BYTES else os.urandom(_KEY_BYTES)
