"""Small readings that several rooms share: ids of items, names in namespaces, data URLs, counts."""

from toolbridge.codecs.openai_responses.shapes import (
    ORIGIN,
    Breakpoint,
    Counts,
    InputDetails,
    OutputDetails,
    WriteDetails,
)
from toolbridge.core.json import JsonObject, dumps, maybe_object
from toolbridge.core.messages import Cache, Opaque, Tool
from toolbridge.core.usage import Usage

# ── what an item says beside its content ─────────────────────────────────────

_OWN = "tb1_"


def own_id(prefix: str, stem: str, number: int) -> str:
    """Return an id for an item of ours. Nobody else knows it, so it is never sent upstream."""
    return f"{prefix}_{_OWN}{stem}_{number}"


def is_own_id(id: str) -> bool:
    return id.partition("_")[2].startswith(_OWN)


def seal_item(fields: JsonObject) -> tuple[Opaque, ...]:
    """Return the id and whatever else an item says beside its content, to be sent back with it."""
    id = fields.get("id")
    if id is None or (isinstance(id, str) and is_own_id(id)):
        fields = {name: value for name, value in fields.items() if name != "id"}
    if not fields:
        return ()
    alone = isinstance(id, str) and fields == {"id": id} and not id.startswith("{")
    return (Opaque(ORIGIN, "item", str(id) if alone else dumps(fields)),)


def item_fields(opaque: tuple[Opaque, ...]) -> JsonObject:
    """Return what `seal_item` kept."""
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


# ── names ────────────────────────────────────────────────────────────────────


def full_name(name: str, namespace: str | None) -> str:
    """Return the name of a tool where namespaces are unknown."""
    return f"{namespace}__{name}" if namespace else name


def inner_name(name: str, namespace: str) -> str:
    """Return the name of a tool inside its namespace; "" when it is not of that namespace."""
    start = f"{namespace}__"
    return name[len(start) :] if namespace and name.startswith(start) else ""


def name_fields(name: str, namespace: str) -> JsonObject:
    inner = inner_name(name, namespace)
    return {"name": inner, "namespace": namespace} if inner else {"name": name}


def namespaces(tools: tuple[Tool, ...]) -> dict[str, str]:
    """Return the namespace of every tool that has one, by its full name."""
    return {tool.name: tool.namespace for tool in tools if tool.namespace}


# ── values ───────────────────────────────────────────────────────────────────


def split_data_url(url: str) -> tuple[str, str]:
    """Return the media type and the base64 of a `data:` URL; two empty texts for any other."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        return "", ""
    return head.removeprefix("data:").partition(";")[0], data


def read_cache(given: Breakpoint | None) -> Cache:
    if given is None:
        return ""
    return "1h" if given.ttl == "12h" else "5m"


def write_cache(cache: Cache) -> JsonObject:
    """Return the field that ends a prefix to cache; this API keeps one longer than ours says."""
    if not cache:
        return {}
    ttl = "12h" if cache == "1h" else "30m"
    return {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": ttl}}


def read_counts(counts: Counts) -> Usage:
    """Return the usage; the input's tokens include what the cache read and wrote."""
    details = counts.input_tokens_details or InputDetails()
    kept = details.cache_write_tokens_details or WriteDetails()
    output = counts.output_tokens_details or OutputDetails()
    read = max(details.cached_tokens or 0, 0)
    write = max(details.cache_write_tokens or 0, 0)
    return Usage(
        input=max((counts.input_tokens or 0) - read - write, 0),
        output=max(counts.output_tokens or 0, 0),
        cache_read=read,
        cache_write=write,
        cache_write_long=min(max(kept.ttl_12h_tokens or 0, 0), write),
        reasoning=max(output.reasoning_tokens or 0, 0),
    )


def write_counts(usage: Usage, estimate: int) -> JsonObject:
    """Return the counts; `estimate` stands in for an input that the upstream did not count."""
    read = usage.input_total or estimate
    return {
        "input_tokens": read,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
            "cache_write_tokens_details": {
                "ttl_30m_tokens": usage.cache_write - usage.cache_write_long,
                "ttl_12h_tokens": usage.cache_write_long,
            },
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": read + usage.output,
    }
