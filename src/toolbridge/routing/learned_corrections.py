"""The corrections that are known for each model, in memory and in the store.

`request_corrections.py` adds a correction when a provider has confirmed it, so that the next request
is accepted at once. Corrections expire, so that a change at the provider is noticed.
"""

import asyncio
import time
from collections import OrderedDict

import msgspec

from toolbridge.core.json import dump_bytes
from toolbridge.policy.corrections import Correction
from toolbridge.routing.route import Route
from toolbridge.store.interface import Store
from toolbridge.upstream.hosts import hostname

DAYS = 7
LASTING = DAYS * 86_400.0
"""Seconds for which a correction is remembered."""
_MOST_MODELS = 256
_MOST_PER_MODEL = 32
_SCOPE, _KEY = "corrections", "all"


class _Row(msgspec.Struct, frozen=True):
    model: str
    until: float
    correction: Correction


_rows = msgspec.json.Decoder(list[_Row])


class LearnedCorrections:
    """The corrections of every model that has rejected a request."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, dict[Correction, float]] = OrderedDict()
        self._store: Store | None = None
        self.unread = False
        """Whether the store may have corrections that were not loaded yet."""
        self._reading = asyncio.Lock()
        self._saving: asyncio.Task[None] | None = None
        self._changed = False

    def attach(self, store: Store, *, has_values: bool) -> None:
        """Use `store` to keep corrections; `has_values` if an earlier process may have used it."""
        self._store = store
        self.unread = has_values

    async def load(self) -> None:
        """Read the corrections of earlier processes, once."""
        if not self.unread or self._store is None:
            return
        async with self._reading:
            if self.unread:
                kept = await self._store.get(_SCOPE, _KEY)
                self.unread = False
                self._merge(kept or b"[]")

    async def refresh(self) -> None:
        """Add what other processes have learned."""
        if self._store is not None:
            self._merge(await self._store.get(_SCOPE, _KEY) or b"[]")

    def _merge(self, kept: bytes) -> None:
        try:
            rows = _rows.decode(kept)
        except msgspec.DecodeError:
            return  # another version wrote it; the corrections are found again
        for row in rows:
            self._known.setdefault(row.model, {}).setdefault(row.correction, row.until)

    def of(self, route: Route) -> tuple[Correction, ...]:
        """Return the corrections for requests to the model of `route`."""
        if not self._known:
            return ()
        found = self._known.get(_name(route), {})
        now = time.time()
        return tuple(correction for correction, until in found.items() if until > now)

    def needs_other_api(self, route: Route) -> bool:
        """Return whether the model has rejected the API of its provider."""
        return any(correction.kind == "api" for correction in self.of(route))

    def add(self, route: Route, corrections: tuple[Correction, ...]) -> None:
        """Remember corrections that the model has confirmed."""
        lasting = [correction for correction in corrections if correction.lasts]
        if not lasting:
            return
        known = self._known.setdefault(_name(route), {})
        self._known.move_to_end(_name(route))
        until = time.time() + LASTING
        for correction in lasting:
            known.pop(correction, None)
            known[correction] = until
        while len(known) > _MOST_PER_MODEL:
            known.pop(next(iter(known)))
        while len(self._known) > _MOST_MODELS:
            self._known.popitem(last=False)
        self._save_soon()

    def _save_soon(self) -> None:
        self._changed = True
        if self._store is not None and self._saving is None:
            self._saving = asyncio.get_running_loop().create_task(self._save(self._store))

    async def _save(self, store: Store) -> None:
        try:
            while self._changed:
                self._changed = False
                # Another gateway may have written to the same file.
                self._merge(await store.get(_SCOPE, _KEY) or b"[]")
                await store.put(_SCOPE, _KEY, self._encoded(), seconds=LASTING)
        finally:
            self._saving = None

    def _encoded(self) -> bytes:
        now = time.time()
        return dump_bytes(
            [
                _Row(model, until, correction)
                for model, known in self._known.items()
                for correction, until in known.items()
                if until > now
            ]
        )

    async def close(self) -> None:
        """Finish writing; call it before the store is closed."""
        if self._saving is not None:
            await self._saving


def _name(route: Route) -> str:
    """Return the key of a model: the body of a request depends on the API and on the server."""
    config = route.provider_config
    return f"{route.address} {config.api} {hostname(config.url)}"
