"""Facts about a model: limits, capabilities, thinking, and parameters that it refuses.

`KnownModel` holds what one source states; every field may be unknown. `join_facts` combines the
sources in their order: the configuration, what the provider reports, the table in the wheel, the
rule of the model's family. An unknown fact changes nothing: the request is sent as it is.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort

Style: TypeAlias = Literal["", "none", "levels", "budget", "adaptive", "switch"]
"""How thinking is requested: by levels, by a budget in tokens, "adaptive" (Anthropic), on or off."""


class KnownModel(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one source states about a model; the default of a field means unknown."""

    window: int = 0
    """The context window in tokens."""
    max_output: int = 0
    """The maximum of output tokens."""
    can: frozenset[str] = frozenset()
    """The capabilities that the model has: `tools`, `thinking`, `vision`, `pdf`, `audio`, `parallel`
    (several calls in one answer), `schema` (answers that follow a JSON Schema), `web_search` (the
    provider searches for the model)."""
    cannot: frozenset[str] = frozenset()
    """The capabilities that it lacks."""
    style: Style = ""
    efforts: tuple[Effort, ...] | None = None
    """The efforts that it accepts, without "none"; empty if it refuses the parameter."""
    default_effort: Effort = ""
    """The effort of a request without one."""
    always_thinks: bool | None = None
    """Whether thinking cannot be turned off."""
    thinking_types: tuple[str, ...] | None = None
    """Anthropic: the accepted values of `thinking.type`."""
    budget: tuple[int, int] | None = None
    """The smallest and the largest budget for thinking, in tokens."""
    sampling: Literal["", "yes", "no", "effort_none"] = ""
    """Whether temperature and top_p are accepted: always, never, or only with the effort "none"."""
    forced_tools: bool | None = None
    """Whether `tool_choice` may force a call."""
    prefill: bool | None = None
    """Whether the last message may be the assistant's."""
    system_in_place: bool | None = None
    """Anthropic: whether a system message may come inside the conversation."""
    api: Literal["", "responses", "responses_for_tools"] = ""
    """OpenAI: whether the model needs the Responses API, always or for tools with reasoning."""
    retires: str = ""
    """The date on which the provider removes the model, as YYYY-MM-DD."""

    def has(self, capability: str) -> bool | None:
        """Return whether the model has `capability`; None if that is unknown."""
        if capability in self.can:
            return True
        return False if capability in self.cannot else None


class JoinedFacts(msgspec.Struct, frozen=True):
    """The facts of all sources, and the source of each."""

    known: KnownModel = KnownModel()
    sources: Mapping[str, str] = {}
    """Field, or capability, → the name of its source."""


def join_facts(stated: Iterable[tuple[str, KnownModel]]) -> JoinedFacts:
    """Return one `KnownModel` from several; for each field the first source that knows it counts."""
    blank = KnownModel()
    fields: JsonObject = {}
    sources: dict[str, str] = {}
    can: set[str] = set()
    cannot: set[str] = set()
    for source, known in stated:
        for name in KnownModel.__struct_fields__:
            value = getattr(known, name)
            if name in {"can", "cannot"} or name in sources or value == getattr(blank, name):
                continue
            fields[name], sources[name] = value, source
        has, lacks = known.can - cannot, known.cannot - can
        sources |= dict.fromkeys((has - can) | (lacks - cannot), source)
        can |= has
        cannot |= lacks
    joined = KnownModel(can=frozenset(can), cannot=frozenset(cannot))
    return JoinedFacts(msgspec.structs.replace(joined, **fields), sources)
