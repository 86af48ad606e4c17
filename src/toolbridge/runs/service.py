"""Accepts requests for structured streams: checks them, finds the model and starts the run.

The HTTP and WebSocket routes and the SDK's local transport use `StreamService`.
"""

import os
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from copy import copy
from functools import cached_property
from pathlib import Path

from toolbridge.config import StreamConfig
from toolbridge.core.caller import owner_of
from toolbridge.core.codec import OutputSupport
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject
from toolbridge.routing import Router
from toolbridge.routing.route import Route
from toolbridge.runs.artifacts import Artifacts
from toolbridge.runs.catalog import catalog_of, with_demo
from toolbridge.runs.client_calls import checked_tool
from toolbridge.runs.first_tries import FirstTryCounts
from toolbridge.runs.folders import Retention
from toolbridge.runs.metering import Meter
from toolbridge.runs.profiles import DEMO_PROFILE, read_defaults, read_profiles
from toolbridge.runs.recording import Recorder
from toolbridge.runs.request import Catalog, GivenTool, StreamRequest, contract_of, read_request
from toolbridge.runs.run import RunContext, StreamRun
from toolbridge.runs.streams import RunSubscription, Streams
from toolbridge.store.interface import Store
from toolbridge.structured.contract import Contract, Mode
from toolbridge.structured.modes import best_mode, expected_rates
from toolbridge.tools.context import ToolContext
from toolbridge.tools.http import HttpTools
from toolbridge.tools.registry import RegisteredTool, Registry

LONGEST_KEY = 255


class StreamService:
    """Starts structured streams for a server or an SDK client."""

    def __init__(
        self,
        router: Router,
        store: Store,
        config: StreamConfig,
        state: Path | None,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._router = router
        self._store = store
        self._config = config
        self._env = env
        self._profiles = read_profiles(config.profiles, env)
        self._defaults = read_defaults(env)
        self._stack = AsyncExitStack()
        self._http: HttpTools | None = None
        self._first_tries = FirstTryCounts(store)
        self._artifacts = self._open_artifacts(state) if state and config.artifacts else None
        self.streams = Streams(
            store, grace=config.grace, most=config.max_streams, run_bytes=config.run_bytes
        )

    def _open_artifacts(self, state: Path) -> Artifacts:
        """Return the artifacts writer; the redactor removes the keys of this server."""
        config = self._config
        retention = Retention(config.keep_runs, config.keep_bytes, config.run_bytes)
        return Artifacts(state / "runs", retention=retention, redactor=self._store.redactor)

    @cached_property
    def catalog(self) -> Catalog:
        """The schemas, tools and limits that every stream may use."""
        return catalog_of(self._config)

    @cached_property
    def _demo_catalog(self) -> Catalog:
        return with_demo(self.catalog)

    def _catalog_for(self, stream_request: StreamRequest, route: Route) -> Catalog:
        """Return the catalog; with the demo's tools for the profile `demo` and the demo model."""
        is_demo = stream_request.profile == DEMO_PROFILE or route.is_demo
        return self._demo_catalog if is_demo else self.catalog

    async def open(
        self, body: JsonObject, caller: str, key: str = "", meter: Meter | None = None
    ) -> RunSubscription:
        """Start a stream, or follow the one that was started with the same idempotency key.

        Raise, before anything has started, for an invalid request or for a key that was used with
        another request.
        """
        if len(key) > LONGEST_KEY:
            text = f"may have at most {LONGEST_KEY} characters"
            raise MalformedRequest(text, where="Idempotency-Key")
        stream_request = read_request(body, self._profiles, self._defaults)
        self.streams.check_room()
        route = await self._route(stream_request, meter)
        if meter is not None:
            names = [t if isinstance(t, str) else t.name for t in stream_request.tools]
            await meter.permit(route.address, names)
        catalog = self._catalog_for(stream_request, route)
        contract = await self._contract(stream_request, catalog, route)
        tools = await self._tools(stream_request, catalog)
        id = self.streams.new_id()
        if key and (begun := await self.streams.claim(id, body, caller, key)) is not None:
            return begun
        if meter is not None:
            meter.run = id
        log = self.streams.log_for(id, caller)
        tool_context = ToolContext(
            run=id, caller=owner_of(caller), idempotency_key=key, store=self._store
        )
        run_context = RunContext(self._router, route, tools, tool_context, self._first_tries, meter)
        recorder = Recorder(id, route, self._artifacts)
        run = StreamRun(stream_request, contract, run_context, log, recorder)
        return await self.streams.begin(id, run, caller)

    async def _contract(
        self, stream_request: StreamRequest, catalog: Catalog, route: Route
    ) -> Contract:
        """Return the contract in the requested mode; with `auto`, in the one with the best rate."""
        model, tag, support = route.target.model, self._tag(stream_request), _support(route)

        def of(mode: Mode) -> Contract:
            return contract_of(stream_request, catalog, model, mode, tag, support)

        if stream_request.mode != "auto":
            return of(stream_request.mode)
        if route.is_demo or route.is_node:  # neither has tools or schemas of its own
            return of("sentinel")
        native = of("native")
        expected = expected_rates(
            constrained=_is_constrained(native, route),
            tools=route.target.can("tools"),
            objects=bool(native.objects),
        )
        mode = best_mode(expected, await self._first_tries.of(route.address))
        return native if mode == "native" else of(mode)

    def _tag(self, stream_request: StreamRequest) -> str:
        wanted = (
            self._config.frame_tag if stream_request.frame_tag is None else stream_request.frame_tag
        )
        return secrets.token_hex(2) if wanted else ""

    async def _route(self, stream_request: StreamRequest, meter: Meter | None) -> Route:
        await self._router.sources.corrections.load()
        key = "" if meter is None else meter.key_name
        return await self._router.first_route(stream_request.model, key)

    async def _tools(self, stream_request: StreamRequest, catalog: Catalog) -> Registry:
        """Return the tools of one stream: the server's, and the caller's tools that have a URL."""
        there = [tool for tool in stream_request.given if tool.url]
        if not there:
            return catalog.tools
        if self._http is None:
            hosts = HttpTools(self._config.tool_hosts)
            self._http = await self._stack.enter_async_context(hosts)
        return catalog.tools.extended([_reached(self._http, tool) for tool in there])

    def renewed(self, router: Router, config: StreamConfig) -> "StreamService":
        """Return a service with other settings for new streams; both have the same streams.

        Close the first one only.
        """
        service = copy(self)
        for name in ("catalog", "_demo_catalog"):
            vars(service).pop(name, None)
        service._router = router  # noqa: SLF001  its own class
        service._config = config  # noqa: SLF001
        service._profiles = read_profiles(config.profiles, self._env)  # noqa: SLF001
        if config.tool_hosts != self._config.tool_hosts:
            service._http = None  # noqa: SLF001
        return service

    async def close(self) -> None:
        await self.streams.close()
        if self._artifacts is not None:
            await self._artifacts.close()
        await self._stack.aclose()


def _reached(http: HttpTools, tool: GivenTool) -> RegisteredTool:
    made = http.tool(
        tool.name, tool.url, description=tool.description, parameters=tool.parameters or None
    )
    return checked_tool(made, tool.returns)


def _support(route: Route) -> OutputSupport:
    return (
        OutputSupport()
        if route.is_demo or route.is_node
        else route.codec.output_support(route.target)
    )


def _is_constrained(contract: Contract, route: Route) -> bool:
    """Whether the provider constrains the answers of this stream, with the stream's own schemas."""
    if not contract.bound:
        return False
    request = contract.request(contract.opening_turns(), final=True)
    losses = route.codec.encode_request(request, route.target).losses
    return not any(loss.what in {"output", "output.schema", "output.strict"} for loss in losses)
