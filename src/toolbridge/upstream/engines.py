"""What a model server reports about itself: its engine, its models, their windows and capabilities.

An `EngineCatalog` asks one server, at most once in a while: `/models` first, then the endpoints of
the engine that the list shows. A server on this machine or in a private network is also asked for
the endpoints of llama.cpp, LM Studio and TGI, whose lists do not name their engine. All questions
together take at most a second; a server that does not answer them is used without facts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import quote

import msgspec

from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import JsonObject
from toolbridge.policy.model_facts import JoinedFacts, join_facts
from toolbridge.upstream.engine_facts import (
    EngineModel,
    ServerList,
    read_list,
    read_lmstudio,
    read_object,
    read_props,
    read_sglang,
    read_tgi,
)
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.silence import Silence

LIMIT = 1.0
"""Seconds for all questions to one server together."""
KEPT = 300.0
"""Seconds for which a report is cached."""
MAX_BODY = 8 * 1024 * 1024
"""OpenRouter's list of models has about a megabyte."""
_MOST_MODELS = 64
"""Models of a llama.cpp router whose properties are kept; clients may send any name."""


class EngineReport(msgspec.Struct, frozen=True):
    """What a server reports."""

    engine: str = ""
    """`llama.cpp`, `vllm`, `sglang`, `lmstudio` or `tgi`; empty if it is unknown."""
    models: Mapping[str, EngineModel] = {}
    answered: bool = False
    """Whether the server answered at all, if only with rejections."""

    def find(self, model: str) -> EngineModel:
        """Return the facts of a model; a server with one model answers to any name."""
        found = self.models.get(model)
        if found is None and self.engine in _ANY_NAME and len(self.models) == 1:
            found = next(iter(self.models.values()))
        return found or EngineModel()


_ANY_NAME = ("llama.cpp", "tgi")


class EngineCatalog:
    """The reports of one server, cached."""

    def __init__(
        self,
        upstream: Upstream,
        provider: str,
        list_url: str,
        headers: Mapping[str, str],
        *,
        private: bool,
    ) -> None:
        self._upstream = upstream
        self._provider = provider
        self._list_url = list_url
        self._root = list_url.removesuffix("/models").removesuffix("/v1")
        self._headers = dict(headers)
        self._private = private
        self._report: tuple[float, EngineReport] | None = None
        """The time until which the report counts, and the report."""
        self._of_models: dict[str, EngineModel] = {}
        """The models of a llama.cpp router, by name."""
        self._asking = asyncio.Lock()
        self.silence = Silence()

    @property
    def is_fresh(self) -> bool:
        """Whether the last report counts, or the server is silent and not to be asked yet."""
        now = asyncio.get_running_loop().time()
        return self._report is not None and now < self._report[0]

    @property
    def last(self) -> EngineReport:
        """The last report, without a request; an empty one before the first."""
        return self._report[1] if self._report else EngineReport()

    async def report(self, limit: float = 0.0) -> EngineReport:
        """Return what the server reports within `limit` or `LIMIT`; else an empty report."""
        async with self._asking:
            clock = asyncio.get_running_loop().time
            now = clock()
            if self._report is not None and now < self._report[0]:
                return self._report[1]
            found = await self._ask_all(limit or LIMIT)
            end = clock()
            self.silence.note(end, answered=found.answered, took=end - now)
            self._report = (end + KEPT if found.answered else self.silence.until, found)
            self._of_models.clear()
            return found

    async def find(self, model: str) -> EngineModel:
        """Return what the server reports about one model; an old report counts until the next one."""
        old = self.last.answered or self.silence.lasts
        report = self.last if old else await self.report()
        if report.engine != "llama.cpp" or len(report.models) <= 1:
            return report.find(model)
        # llama.cpp server, router mode: `GET /props?model=NAME`.
        if model not in self._of_models:
            props = read_props(await self._get_soon(f"/props?model={quote(model, safe='')}"))
            if len(self._of_models) >= _MOST_MODELS:
                self._of_models.clear()
            self._of_models[model] = props or report.find(model)
        return self._of_models[model]

    async def _ask_all(self, limit: float) -> EngineReport:
        """Ask the server until it is known or the time is over; return what was found by then."""
        found = [EngineReport()]
        try:
            async with asyncio.timeout(limit):
                await self._ask_in_turn(found, limit)
        except (TimeoutError, ToolbridgeError):
            return found[-1]
        return found[-1]

    async def _ask_in_turn(self, found: list[EngineReport], limit: float) -> None:
        listed = read_list(await self._get(self._list_url, limit))
        engine = _OWNERS.get(listed.owner, "")
        found.append(EngineReport(engine, listed.models, answered=True))
        asked = _BY_ENGINE.get(engine, ()) if engine else _UNNAMED if self._private else ()
        reports = await asyncio.gather(*(ask(self, listed) for ask in asked))
        if known := next((report for report in reports if report is not None), None):
            found.append(known)

    async def _get(self, url: str, limit: float = LIMIT) -> bytes:
        """Return the body of a successful answer; empty for a rejection."""
        incoming = await self._upstream.ask(
            "GET", url, provider=self._provider, headers=self._headers, waits=(limit, limit)
        )
        try:
            return b"" if incoming.status != 200 else await incoming.read_whole(MAX_BODY)
        finally:
            await incoming.release()

    async def get_object(self, path: str) -> JsonObject:
        """Return the JSON object at a path of the server; an empty one for any other answer."""
        try:
            return read_object(await self._get(self._root + path))
        except ToolbridgeError:
            return {}

    async def _get_soon(self, path: str) -> JsonObject:
        try:
            async with asyncio.timeout(LIMIT):
                return await self.get_object(path)
        except TimeoutError:
            return {}


Ask = Callable[[EngineCatalog, ServerList], Awaitable[EngineReport | None]]


async def _llamacpp(server: EngineCatalog, listed: ServerList) -> EngineReport | None:
    found = read_props(await server.get_object("/props"))
    if found is None:
        return None
    models = {name: _joined(found, model) for name, model in listed.models.items()}
    return EngineReport("llama.cpp", models or {"": found}, answered=True)


async def _sglang(server: EngineCatalog, listed: ServerList) -> EngineReport | None:
    paths = ("/model_info", "/server_info")
    info, about = await asyncio.gather(*(server.get_object(path) for path in paths))
    # SGLang: `/get_model_info` and `/get_server_info` are the names of older versions.
    info = info or await server.get_object("/get_model_info")
    about = about or await server.get_object("/get_server_info")
    found = EngineModel(read_sglang(info, about))
    models = {name: _joined(model, found) for name, model in listed.models.items()}
    return EngineReport("sglang", models, answered=True)


async def _lmstudio(server: EngineCatalog, listed: ServerList) -> EngineReport | None:
    models = read_lmstudio(await server.get_object("/api/v1/models"))
    models = models or read_lmstudio(await server.get_object("/api/v0/models"))
    if not models:
        return None
    return EngineReport("lmstudio", {**listed.models, **models}, answered=True)


async def _tgi(server: EngineCatalog, listed: ServerList) -> EngineReport | None:
    models = read_tgi(await server.get_object("/info"))
    if not models:
        return None
    return EngineReport("tgi", {**listed.models, **models}, answered=True)


def _joined(first: EngineModel, second: EngineModel) -> EngineModel:
    """Return both as one; `first` counts where both know a fact."""
    joined: JoinedFacts = join_facts((("", first.known), ("", second.known)))
    template = first.template or second.template
    slots = first.slots or second.slots
    return EngineModel(joined.known, template, embeds=first.embeds or second.embeds, slots=slots)


_OWNERS = {"llamacpp": "llama.cpp", "vllm": "vllm", "sglang": "sglang"}
"""`owned_by` in the list → the engine."""
_BY_ENGINE: dict[str, tuple[Ask, ...]] = {"llama.cpp": (_llamacpp,), "sglang": (_sglang,)}
_UNNAMED: tuple[Ask, ...] = (_llamacpp, _lmstudio, _tgi)
"""Asked where the list does not name the engine."""
