"""A server of Gemini."""

import re

from toolbridge.conformance.cases import WireFraming
from toolbridge.conformance.json_path import items, members, text
from toolbridge.conformance.upstreams import UpstreamApi, sse
from toolbridge.core.json import Json, JsonObject

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_THEIRS = frozenset({"args", "response", "parameters", "parametersJsonSchema"})
"""Members whose keys come from clients and models."""
_REFUSED = frozenset(
    {"$schema", "$id", "oneOf", "allOf", "not", "const", "additionalProperties", "$ref", "$defs"}
)


def frame(line: str, framing: WireFraming) -> bytes:
    return sse.write(line, framing, eol="\r\n")


def tools(body: JsonObject) -> list[str]:
    return [text(one, "name") for one in items(body, "tools.0.functionDeclarations")]


def normal(body: JsonObject) -> JsonObject:
    """Return `body` in camel case: protobuf accepts both spellings. Other keys stay."""
    return {_camel(name): _inside(name, value) for name, value in body.items()}


def _inside(name: str, value: Json) -> Json:
    if name in _THEIRS:
        return value
    if isinstance(value, list):
        return [_inside("", one) for one in value]
    return normal(value) if isinstance(value, dict) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def refuses(body: JsonObject) -> list[str]:
    """Return why Gemini would reject a request: n calls need one turn with n results."""
    contents = items(body, "contents")
    found = [] if contents else ["contents is not specified"]
    waiting = 0
    for content in contents:
        role, parts = text(content, "role"), items(content, "parts")
        if role not in {"user", "model"}:
            found.append(f"no role is called {role!r}")
        if not parts:
            found.append("a content has no parts")
        results = _count(parts, "functionResponse")
        if results != waiting:
            found.append(f"{waiting} calls are followed by {results} results")
        waiting = _count(parts, "functionCall")
    if waiting:
        found.append(f"{waiting} calls are never answered")
    return found + _declarations(body)


def _count(parts: list[Json], name: str) -> int:
    return sum(name in members(part) for part in parts)


def _declarations(body: JsonObject) -> list[str]:
    found = []
    for tool in items(body, "tools"):
        for declared in items(tool, "functionDeclarations"):
            if not _NAME.fullmatch(text(declared, "name")):
                found.append(f"the function name {text(declared, 'name')!r} is not allowed")
            if refused := _keywords(members(declared, "parameters")) & _REFUSED:
                found.append(f"the schema has {', '.join(sorted(refused))}")
    return found


def _keywords(schema: Json) -> set[str]:
    """Return the keywords of a schema and of its subschemas, without property names."""
    if isinstance(schema, list):
        return {word for one in schema for word in _keywords(one)}
    if not isinstance(schema, dict):
        return set()
    words = set(schema)
    for name, inner in schema.items():
        if name == "properties":
            words |= {word for one in members(inner).values() for word in _keywords(one)}
        elif name not in {"enum", "default", "example"}:
            words |= _keywords(inner)
    return words


UPSTREAM = UpstreamApi(
    path=re.compile(r"/models/[^/]+:(streamGenerateContent|generateContent)$"),
    base="/v1beta",
    content_type="text/event-stream",
    frame=frame,
    tools=tools,
    refuses=refuses,
    normal=normal,
)
