"""Measures how often the streams of each model are valid at the first try, by mode.

Counts are kept in memory and, for the next start, in the store: per provider, model and mode.
"""

import msgspec

from toolbridge.core.json import dump_bytes
from toolbridge.store.interface import Store
from toolbridge.structured.contract import Mode
from toolbridge.structured.modes import FirstTries

_SCOPE = "first_tries"
_KEPT = 90 * 24 * 3600.0
_MODES: tuple[Mode, ...] = ("native", "sentinel")
_MAX_MODELS = 1024


class FirstTryCounts:
    """The counts of one gateway or client."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, dict[Mode, FirstTries]] = {}

    async def of(self, address: str) -> dict[Mode, FirstTries]:
        """Return the counts of a model (`provider/model`) by mode."""
        if address not in self._known:
            found = {mode: await self._read(address, mode) for mode in _MODES}
            if len(self._known) >= _MAX_MODELS:
                self._known.clear()  # the store has them
            self._known.setdefault(address, found)
        return self._known[address]

    async def add(self, address: str, mode: Mode, *, valid: bool) -> None:
        """Count one stream."""
        counts = await self.of(address)
        counts[mode] = counts[mode].plus(valid=valid)
        written = dump_bytes(msgspec.to_builtins(counts[mode]))
        await self._store.put(_SCOPE, f"{address} {mode}", written, seconds=_KEPT)

    async def _read(self, address: str, mode: Mode) -> FirstTries:
        written = await self._store.get(_SCOPE, f"{address} {mode}")
        try:
            return msgspec.json.decode(written, type=FirstTries) if written else FirstTries()
        except msgspec.MsgspecError:  # another version wrote it
            return FirstTries()
