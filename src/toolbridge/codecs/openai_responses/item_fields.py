"""Fields of items that have no counterpart in our parts: ids, namespaces, cache breakpoints.

OpenAI Responses, input items: an item that is sent back must keep its `id`, its `phase` and other
fields. They are kept in an `Opaque` token of kind `item` on the part that the item became.
"""

from toolbridge.codecs.openai_responses.shapes import ORIGIN, Breakpoint
from toolbridge.core.json import JsonObject, dumps, maybe_object
from toolbridge.core.messages import Cache, Opaque, Tool

# ── ids and other fields of an item ──────────────────────────────────────────

_OWN = "tb1_"


def own_id(prefix: str, stem: str, number: int) -> str:
    """Return the id of an item that the gateway wrote.

    OpenAI Responses: an unknown id is rejected ("Item with id … not found"), so the id is
    recognizable and is removed before the item is sent to a provider.
    """
    return f"{prefix}_{_OWN}{stem}_{number}"


def is_own_id(id: str) -> bool:
    """Return True for an id that `own_id` made."""
    return id.partition("_")[2].startswith(_OWN)


def seal_item(fields: JsonObject) -> tuple[Opaque, ...]:
    """Return the id and the other fields of an item as a token; nothing without fields."""
    id = fields.get("id")
    if id is None or (isinstance(id, str) and is_own_id(id)):
        fields = {name: value for name, value in fields.items() if name != "id"}
    if not fields:
        return ()
    alone = isinstance(id, str) and fields == {"id": id} and not id.startswith("{")
    return (Opaque(ORIGIN, "item", str(id) if alone else dumps(fields)),)


def item_fields(opaque: tuple[Opaque, ...]) -> JsonObject:
    """Return the fields that `seal_item` kept."""
    for value in tokens(opaque, "item"):
        kept = maybe_object(value) if value.startswith("{") else None
        return {"id": value} if kept is None else kept
    return {}


def tokens(opaque: tuple[Opaque, ...], kind: str) -> list[str]:
    """Return the tokens of this kind that this API made."""
    return [
        token.value
        for token in opaque
        if token.kind == kind and token.origin.partition("/")[0] == ORIGIN
    ]


# ── names in namespaces ──────────────────────────────────────────────────────


def full_name(name: str, namespace: str | None) -> str:
    """Return the name of a tool for APIs without namespaces."""
    return f"{namespace}__{name}" if namespace else name


def inner_name(name: str, namespace: str) -> str:
    """Return the name of a tool inside its namespace; "" for a tool of another namespace."""
    start = f"{namespace}__"
    return name[len(start) :] if namespace and name.startswith(start) else ""


def name_fields(name: str, namespace: str) -> JsonObject:
    """Return the fields `name` and, for a tool in a namespace, `namespace`."""
    inner = inner_name(name, namespace)
    return {"name": inner, "namespace": namespace} if inner else {"name": name}


def namespaces(tools: tuple[Tool, ...]) -> dict[str, str]:
    """Return the namespace of every tool that has one, by the tool's full name."""
    return {tool.name: tool.namespace for tool in tools if tool.namespace}


# ── cache breakpoints ────────────────────────────────────────────────────────


def decode_cache(given: Breakpoint | None) -> Cache:
    """Return the lifetime of ours that is nearest to a breakpoint's."""
    if given is None:
        return ""
    return "1h" if given.ttl == "12h" else "5m"


def encode_cache(cache: Cache) -> JsonObject:
    """Return the breakpoint. OpenAI, prompt caching: prefixes live 30 minutes or 12 hours."""
    if not cache:
        return {}
    ttl = "12h" if cache == "1h" else "30m"
    return {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": ttl}}
