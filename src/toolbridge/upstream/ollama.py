"""The models of an Ollama server, with their capabilities and context windows.

`/api/tags` lists them, but its capabilities can be wrong for models with their own template.
`/api/show` is right for those, so it is requested once per model and cached. `routing/discovery.py`
uses this.
"""

import asyncio
import re

import msgspec

from toolbridge.core.errors import ToolbridgeError, UnknownModel
from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.upstream.http import Upstream

KEPT = 300.0
"""Seconds for which the details of a model are cached."""
LIST_KEPT = 1.0
"""Seconds for which the list is cached; short, so that a model is found right after its pull."""
MOST_SHOWN = 64
AT_ONCE = 8
_EMBEDS = re.compile(r"embed|bge-|(?:^|/)(?:all-minilm|paraphrase-multilingual|gte-|e5-)")


class ModelDetails(msgspec.Struct, frozen=True):
    """What `/api/show` reports about a model."""

    capabilities: frozenset[str] | None = None
    window: int = 0


class OllamaModel(msgspec.Struct, frozen=True):
    """One model of the server's list, with its details."""

    name: str
    shown: ModelDetails = ModelDetails()
    embeds: bool = False
    """Whether it is an embedding model that cannot chat."""


class _Show(msgspec.Struct):
    capabilities: list[str] | None = None
    model_info: JsonObject | None = None


class _Details(msgspec.Struct):
    family: str | None = None
    families: list[str] | None = None


class _Tag(msgspec.Struct):
    name: str
    details: _Details | None = None
    capabilities: list[str] | None = None
    """Newer servers only."""


class _Tags(msgspec.Struct):
    models: list[_Tag] | None = None


class OllamaCatalog:
    """The models of one Ollama server."""

    def __init__(self, upstream: Upstream, url: str, headers: dict[str, str]) -> None:
        self._upstream = upstream
        bare, mark, query = url.partition("?")
        self._url = bare.rstrip("/")
        self._query = mark + query
        self._headers = headers
        self._shown: dict[str, tuple[float, ModelDetails]] = {}
        self._listed: tuple[float, list[_Tag]] | None = None
        self._listing = asyncio.Lock()

    async def names(self, *, wait: float = 2.0) -> list[str]:
        """Return the names of the server's models; raise if it cannot be reached."""
        return [tag.name for tag in await self._tags(wait)]

    async def offered(self, *, wait: float = 2.0) -> list[OllamaModel]:
        """Return the server's models, with the details that arrive within `wait` seconds."""
        tags = await self._tags(wait)
        gate = asyncio.Semaphore(AT_ONCE)

        async def known(name: str) -> ModelDetails:
            async with gate:
                try:
                    return await self.show(name)
                except ToolbridgeError:
                    return ModelDetails()

        asked = [asyncio.ensure_future(known(tag.name)) for tag in tags[:MOST_SHOWN]]
        try:
            done, _ = await asyncio.wait(asked, timeout=wait) if asked else (set(), set())
        finally:
            for task in asked:
                task.cancel()
        shown = [task.result() if task in done else ModelDetails() for task in asked]
        shown += [ModelDetails()] * (len(tags) - len(asked))
        return [
            OllamaModel(tag.name, found, _embeds(tag, found))
            for tag, found in zip(tags, shown, strict=True)
        ]

    async def _tags(self, wait: float) -> list[_Tag]:
        async with self._listing:
            now = asyncio.get_running_loop().time()
            if self._listed is not None and now - self._listed[0] < LIST_KEPT:
                return self._listed[1]
            body = await self._ask("GET", "/api/tags", None, wait)
            found = msgspec.json.decode(body, type=_Tags).models or []
            self._listed = (now, found)
            return found

    async def show(self, model: str) -> ModelDetails:
        """Return the details of `model`, empty if they cannot be read; raise `UnknownModel`."""
        now = asyncio.get_running_loop().time()
        kept = self._shown.get(model)
        if kept is not None and now - kept[0] < KEPT:
            return kept[1]
        try:
            body = await self._ask("POST", "/api/show", dump_bytes({"model": model}), 5.0)
            shown = _read(msgspec.json.decode(body, type=_Show))
        except (msgspec.DecodeError, UnicodeDecodeError):
            shown = ModelDetails()
        if len(self._shown) > 256:  # a client may ask for any name
            self._shown.clear()
        self._shown[model] = (now, shown)
        return shown

    async def _ask(self, method: str, path: str, body: bytes | None, wait: float) -> bytes:
        incoming = await self._upstream.ask(
            method,
            self._url + path + self._query,
            provider="ollama",
            body=body,
            headers={**self._headers, "content-type": "application/json"},
            waits=(wait, wait),
        )
        try:
            answer = await incoming.read_whole(4 * 1024 * 1024)
        finally:
            await incoming.release()
        if incoming.status == 404 and b"not found" in answer and answer.startswith(b"{"):
            raise UnknownModel("the Ollama server does not have this model")
        if incoming.status >= 400:
            raise ToolbridgeError(f"Ollama at {self._url} answered {incoming.status} to {path}")
        return answer


def _embeds(tag: _Tag, shown: ModelDetails) -> bool:
    """Return whether a model only makes embeddings.

    Servers that are too old to report capabilities are judged by the model's family and name.
    """
    can = shown.capabilities
    if can is None and tag.capabilities is not None:
        can = frozenset(tag.capabilities)
    if can is not None and can:
        return "embedding" in can and "completion" not in can
    details = tag.details or _Details()
    families = [details.family or "", *(details.families or [])]
    return any("bert" in family for family in families) or bool(_EMBEDS.search(tag.name.lower()))


def _read(show: _Show) -> ModelDetails:
    known = None if show.capabilities is None else frozenset(show.capabilities)
    return ModelDetails(known, _window(show.model_info or {}))


def _window(info: JsonObject) -> int:
    """Return the context length of the model's architecture, not of an adapter or vision part."""
    lengths = {
        name: value
        for name, value in info.items()
        if name.endswith(".context_length") and type(value) is int and value > 0
    }
    own = lengths.get(f"{info.get('general.architecture')}.context_length")
    return own or next(iter(lengths.values()), 0)
