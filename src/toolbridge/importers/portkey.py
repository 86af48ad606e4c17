"""Portkey's configuration: `strategy` and `targets`, nested in any depth.

Portkey docs, ai-gateway/configs: the modes are `single`, `fallback`, `loadbalance` and `conditional`;
`override_params.model` is the model of a target.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import msgspec

from toolbridge import providers
from toolbridge.core.json import Json, JsonObject
from toolbridge.importers.draft import (
    ConfigDraft,
    Endpoint,
    entries_of,
    object_of,
    table_of,
    text_of,
)

PROVIDERS: Mapping[str, str] = {
    "azure-openai": "azure", "fireworks-ai": "fireworks", "mistral-ai": "mistral",
    "perplexity-ai": "perplexity", "together-ai": "together", "vertex-ai": "vertex", "x-ai": "xai",
}  # fmt: skip
"""Portkey's name → the built-in provider, where they differ."""
_TARGET = ("provider", "api_key", "custom_host", "override_params", "weight", "name", "id")
_STRATEGY = ("mode", "conditions", "default")
_MOST_CHAINS = 32
"""Chains of one strategy; a chain of shared targets has a chain for each combination."""


def import_portkey(source: JsonObject, draft: ConfigDraft) -> None:
    """Read a configuration of Portkey into `draft`."""
    _Importer(draft).top(source)


class _Choice(msgspec.Struct, frozen=True):
    """One of the chains that share the conversations."""

    chain: tuple[str, ...]
    weight: float = 1


class _Importer:
    def __init__(self, draft: ConfigDraft) -> None:
        self._draft = draft

    def top(self, source: JsonObject) -> None:
        """Read the outermost strategy, which serves every request."""
        if self._mode(source) == "conditional":
            self._conditions(source)
        else:
            self._default(source, "")
        if "retry" in source:
            self._draft.note("retry", "set `retries` in the table of each provider; not carried")
        self._draft.rest("", source, (*_TARGET, "strategy", "targets", "retry"))

    def _mode(self, table: JsonObject) -> str:
        return text_of(table_of(table, "strategy"), "mode") or "single"

    def _conditions(self, source: JsonObject) -> None:
        strategy = table_of(source, "strategy")
        targets = {
            text_of(target, "name"): (target, at)
            for at, target in entries_of(source, "targets", self._draft)
        }
        for at, condition in entries_of(strategy, "conditions", self._draft, "strategy"):
            names = _model_condition(object_of(condition, "query"))
            target = targets.get(text_of(condition, "then"))
            if not names:
                text = "only `$eq` and `$in` of `params.model` can be carried; not carried"
                self._draft.note(f"{at}.query", text)
            elif target is None:
                text = f"there is no target {text_of(condition, 'then')!r}; not carried"
                self._draft.note(f"{at}.then", text)
            else:
                self._share(*target, {"model": names[0] if len(names) == 1 else [*names]})
        if default := targets.get(text_of(strategy, "default")):
            self._default(*default)

    def _default(self, table: JsonObject, where: str) -> None:
        """Serve every other request: by the map, or by a rule without conditions."""
        choices = self._choices(table, where)
        if len(choices) == 1:
            self._draft.map["default"] = choices[0].chain
        elif choices:
            self._draft.routes.append({"to": self._weighted(choices, table)})

    def _share(self, table: JsonObject, where: str, rule: dict[str, Json]) -> None:
        """Add a rule to one target, or to several with weights."""
        choices = self._choices(table, where)
        if len(choices) == 1:
            self._draft.routes.append({**rule, "to": self._name(choices[0].chain, table)})
        elif choices:
            self._draft.routes.append({**rule, "to": self._weighted(choices, table)})

    def _weighted(self, choices: Sequence[_Choice], table: JsonObject) -> list[Json]:
        return [
            {"model": self._name(choice.chain, table), "weight": choice.weight}
            for choice in choices
        ]

    def _name(self, chain: tuple[str, ...], table: JsonObject) -> str:
        """Return an address; a chain becomes a name of the map."""
        if len(chain) == 1:
            return chain[0]
        for name, known in self._draft.map.items():
            if known == chain and name != "default":
                return name
        name = text_of(table, "name") or f"fallback-{len(self._draft.map) + 1}"
        name = self._draft.free_name(name)
        self._draft.map[name] = chain
        return name

    def _choices(self, table: JsonObject, where: str) -> list[_Choice]:
        """Return the chains of a target with their weights: those of all targets below it."""
        if "targets" not in table:
            address = self._address(table, where)
            return [_Choice((address,))] if address else []
        mode = self._mode(table)
        self._draft.rest(_join(where, "strategy"), object_of(table, "strategy"), _STRATEGY)
        below = entries_of(table, "targets", self._draft, where)
        if mode == "loadbalance":
            return self._balanced(below)
        if mode not in {"fallback", "single"}:
            text = f"{mode!r} was not carried here; its first target is used"
            self._draft.note(_join(where, "strategy.mode"), text)
        found = [self._choices(one, at) for at, one in (below if mode == "fallback" else below[:1])]
        return self._in_order([choices for choices in found if choices], where)

    def _balanced(self, targets: Sequence[tuple[str, JsonObject]]) -> list[_Choice]:
        """Return the choices of all targets, each with its part of the target's weight."""
        found: list[_Choice] = []
        for at, target in targets:
            weight = target.get("weight", 1)
            if isinstance(weight, int | float) and weight > 0:
                choices = self._choices(target, at)
                total = sum(choice.weight for choice in choices)
                part = weight if len(choices) == 1 else weight / total if total else 0
                found += [_Choice(c.chain, _rounded(c.weight * part)) for c in choices]
        return found

    def _in_order(self, steps: Sequence[list[_Choice]], where: str) -> list[_Choice]:
        """Return a chain for each combination of the choices of several steps."""
        if prod(map(len, steps)) > _MOST_CHAINS:
            text = f"more than {_MOST_CHAINS} combinations; the first target of each part is used"
            self._draft.note(_join(where, "targets"), text)
            steps = [step[:1] for step in steps]
        return [
            _Choice(
                tuple(dict.fromkeys(address for choice in parts for address in choice.chain)),
                _rounded(prod(choice.weight for choice in parts))
                if len(steps) > 1
                else parts[0].weight,
            )
            for parts in (product(*steps) if steps else ())
        ]

    def _address(self, target: JsonObject, where: str) -> str:
        params = object_of(target, "override_params")
        model = text_of(params, "model")
        at = _join(where, "provider")
        named = (text_of(target, "provider") or text_of(target, "virtual_key")).removeprefix("@")
        if "virtual_key" in target:
            text = f"the key {named!r} is kept by Portkey; set the provider's own variable"
            self._draft.note(_join(where, "virtual_key"), text)
        if model.startswith("@"):  # Portkey, model catalog: `@provider/model`
            named, _, model = model[1:].partition("/")
        name = self._provider_name(named)
        if not model:
            self._draft.note(_join(where, "override_params.model"), "a target needs a model")
            return ""
        url = text_of(target, "custom_host")
        if not name and not url:
            self._draft.note(at, f"there is no provider {named!r}; add a table for it")
            return ""
        self._draft.rest(_join(where, "override_params"), params, ("model",))
        if where:  # the fields of the outermost target are noted with the file's own
            self._draft.rest(where, target, (*_TARGET, "virtual_key"))
        endpoint = Endpoint(name or named, name, "" if name else "openai_chat", url)
        endpoint = _with_key(endpoint, text_of(target, "api_key"))
        return f"{self._draft.provider(endpoint, _join(where, 'api_key'))}/{model}"

    def _provider_name(self, named: str) -> str:
        """Return the built-in provider; a virtual key often begins with its name."""
        for name in (named, named.partition("-")[0]):
            found = PROVIDERS.get(name, name)
            if found in providers.names():
                return found
        return next((ours for theirs, ours in PROVIDERS.items() if named.startswith(theirs)), "")


def _with_key(endpoint: Endpoint, key: str) -> Endpoint:
    return Endpoint(endpoint.name, endpoint.base, endpoint.api, endpoint.url, key)


def _rounded(weight: float) -> float:
    return weight if isinstance(weight, int) else max(round(weight, 6), 0.000001)


def _model_condition(query: JsonObject) -> tuple[str, ...]:
    """Return the names of a condition on the model alone; none for any other condition."""
    asked = query.get("params.model")
    if len(query) != 1 or not isinstance(asked, dict) or len(asked) != 1:
        return ()
    value = asked.get("$eq", asked.get("$in"))
    values = value if isinstance(value, list) else [value]
    return tuple(one for one in values if isinstance(one, str))


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
