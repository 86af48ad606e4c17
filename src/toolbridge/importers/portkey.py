"""Portkey's configuration: `strategy` and `targets`, nested in any depth.

Portkey docs, ai-gateway/configs: the modes are `single`, `fallback`, `loadbalance` and `conditional`;
`override_params.model` is the model of a target.
"""

from collections.abc import Mapping

from toolbridge import providers
from toolbridge.core.json import Json, JsonObject
from toolbridge.importers.draft import ConfigDraft, Endpoint, object_of, objects_of, text_of

PROVIDERS: Mapping[str, str] = {
    "azure-openai": "azure", "fireworks-ai": "fireworks", "mistral-ai": "mistral",
    "perplexity-ai": "perplexity", "together-ai": "together", "vertex-ai": "vertex", "x-ai": "xai",
}  # fmt: skip
"""Portkey's name → the built-in provider, where they differ."""
_TARGET = ("provider", "api_key", "custom_host", "override_params", "weight", "name", "id")


def import_portkey(source: JsonObject, draft: ConfigDraft) -> None:
    """Read a configuration of Portkey into `draft`."""
    _Importer(draft).top(source)


class _Importer:
    def __init__(self, draft: ConfigDraft) -> None:
        self._draft = draft

    def top(self, source: JsonObject) -> None:
        """Read the outermost strategy, which serves every request."""
        mode = self._mode(source)
        if mode == "conditional":
            self._conditions(source)
        elif mode == "loadbalance":
            self._share(source, "", {})
        elif addresses := self._chain(source, ""):
            self._draft.map["default"] = addresses
        if "retry" in source:
            self._draft.note("retry", "set `retries` in the table of each provider; not carried")
        self._draft.rest("", source, (*_TARGET, "strategy", "targets", "retry"))

    def _mode(self, table: JsonObject) -> str:
        return text_of(object_of(table, "strategy"), "mode") or "single"

    def _conditions(self, source: JsonObject) -> None:
        strategy = object_of(source, "strategy")
        targets = {
            text_of(target, "name"): (target, f"targets.{number}")
            for number, target in enumerate(objects_of(source, "targets"))
        }
        for number, condition in enumerate(objects_of(strategy, "conditions")):
            at = f"strategy.conditions.{number}"
            names = _model_condition(object_of(condition, "query"))
            target = targets.get(text_of(condition, "then"))
            if not names or target is None:
                self._draft.note(at, "only a condition on `params.model` can be carried")
                continue
            self._share(*target, {"model": names[0] if len(names) == 1 else [*names]})
        default = targets.get(text_of(strategy, "default"))
        if default is not None and (addresses := self._chain(*default)):
            self._draft.map["default"] = addresses

    def _share(self, table: JsonObject, where: str, rule: dict[str, Json]) -> None:
        """Add a rule to one target, or to several with weights."""
        if self._mode(table) != "loadbalance":
            if address := self._one(table, where):
                self._draft.routes.append({**rule, "to": address})
            return
        to: list[Json] = []
        for at, target in _targets(table, where):
            if address := self._one(target, at):
                weight = target.get("weight", 1)
                if isinstance(weight, int | float) and weight > 0:
                    to.append({"model": address, "weight": weight})
        if to:
            self._draft.routes.append({**rule, "to": to})

    def _one(self, table: JsonObject, where: str) -> str:
        """Return an address for a target; a chain becomes a name of the map."""
        addresses = self._chain(table, where)
        if len(addresses) < 2:
            return addresses[0] if addresses else ""
        name = text_of(table, "name") or f"fallback-{len(self._draft.map) + 1}"
        self._draft.map[name] = addresses
        return name

    def _chain(self, table: JsonObject, where: str) -> tuple[str, ...]:
        """Return the addresses of a target, in the order in which they are tried."""
        if "targets" not in table:
            address = self._address(table, where)
            return (address,) if address else ()
        mode = self._mode(table)
        below = _targets(table, where)
        if mode not in {"fallback", "single"}:
            text = f"{mode!r} inside another strategy was not carried; its first target is used"
            self._draft.note(_join(where, "strategy"), text)
        if mode != "fallback":
            below = below[:1]
        self._draft.rest(_join(where, "strategy"), object_of(table, "strategy"), ("mode",))
        found = [address for at, target in below for address in self._chain(target, at)]
        return tuple(dict.fromkeys(found))

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


def _targets(table: JsonObject, where: str) -> list[tuple[str, JsonObject]]:
    found = objects_of(table, "targets")
    return [(_join(where, f"targets.{number}"), target) for number, target in enumerate(found)]


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
