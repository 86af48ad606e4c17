"""The tool mode of each model: what is configured, what its provider can do, what was learned.

`policy/tool_modes.py` decides; this module collects what it decides by, and keeps what the answers
of a model have shown, in memory and in the store.
"""

import asyncio
from contextlib import suppress
from typing import Protocol

import msgspec

from toolbridge.core.messages import Request, ToolChoice
from toolbridge.policy.tool_modes import (
    LearnedMode,
    ModeOutcome,
    ToolMode,
    choose_mode,
    learn,
    offered_choice,
)
from toolbridge.routing.providers import is_first_party
from toolbridge.routing.route import Route

SCOPE = "tool_modes"
_KEY = "learned"
KEPT = 90 * 24 * 3600.0
"""Seconds for which a learned mode is kept after the last change."""
_MAX_MODELS = 1000
_saved = msgspec.json.Decoder(dict[str, LearnedMode])


class ModeStore(Protocol):
    """The part of the store that keeps what was learned."""

    async def get(self, scope: str, key: str) -> bytes | None: ...

    async def put(self, scope: str, key: str, value: bytes, *, seconds: float) -> None: ...


class ToolModes:
    """What the answers of models have shown about their tool modes."""

    def __init__(self) -> None:
        self._learned: dict[str, LearnedMode] = {}
        self._store: ModeStore | None = None
        self._saving: asyncio.Task[None] | None = None

    async def open(self, store: ModeStore, *, load: bool = True) -> None:
        """Load what was learned before, unless nothing was, and save what is learned from now on."""
        self._store = store
        if load:
            await self.refresh()

    async def refresh(self) -> None:
        """Add what other processes have learned; what this one has learned stays."""
        saved = None if self._store is None else await self._store.get(SCOPE, _KEY)
        if saved:
            with suppress(msgspec.DecodeError):  # of another version: it is learned again
                self._learned = _saved.decode(saved) | self._learned

    async def close(self) -> None:
        """Wait until everything is saved."""
        if self._saving is not None:
            await self._saving

    def mode(self, request: Request, route: Route) -> ToolMode:
        """Return the mode in which the tools of `request` reach the model of `route`, if it has any."""
        setting = route.tool_mode
        if setting != "auto":
            return setting
        if not request.tools:
            return "native"
        known, support = self.learned(route), route.tool_support
        if known.unbound:
            support = msgspec.structs.replace(support, constraint="")
        return choose_mode(offered_choice(request), support, known.mode)

    def tags_calls(self, route: Route) -> bool:
        """Whether the provider can constrain the calls that the model writes into its text."""
        return route.tags_calls and not self.learned(route).untagged

    def explain(self, route: Route) -> tuple[ToolMode, str]:
        """Return the mode of the model for calls that it may make, and the reason for it."""
        setting = route.tool_mode
        if setting != "auto":
            return setting, "set by `tool_mode`"
        known = self.learned(route)
        mode = choose_mode(ToolChoice(), route.tool_support, known.mode)
        if mode == "native":
            return mode, "it has worked" if known.worked else ""
        if not route.target.can("tools"):
            return mode, "the model has no native tools"
        return mode, f"learned: {known.why}"

    def learned(self, route: Route) -> LearnedMode:
        """Return what is known about the model; nothing if its template has changed."""
        start: ToolMode = "native" if route.tool_support.native else "prompt"
        known = self._learned.get(route.address)
        if known is None or known.template != route.template:
            return LearnedMode(start, template=route.template)
        if start == "prompt" and known.mode == "native":
            return LearnedMode(start, template=route.template)
        return known

    def note(self, route: Route, mode: ToolMode, outcome: ModeOutcome) -> None:
        """Learn from an answer of the model of `route` in `mode`."""
        if route.tool_mode != "auto" or is_first_party(route.provider_config):
            return  # the vendors' own servers enforce a tool choice; a failure is the model's choice
        before = self.learned(route)
        after = learn(before, mode, outcome)
        if after == before or (route.address not in self._learned and self._is_full):
            return
        self._learned[route.address] = after
        if msgspec.structs.replace(after, failures=before.failures) != before:
            self._save()

    @property
    def _is_full(self) -> bool:
        return len(self._learned) >= _MAX_MODELS

    def _save(self) -> None:
        if self._store is not None and (self._saving is None or self._saving.done()):
            self._saving = asyncio.get_running_loop().create_task(self._write(self._store))

    async def _write(self, store: ModeStore) -> None:
        written = b""
        await self.refresh()
        while (value := msgspec.json.encode(self._learned)) != written:
            await store.put(SCOPE, _KEY, value, seconds=KEPT)
            written = value
