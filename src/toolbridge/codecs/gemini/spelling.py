"""Uniform spelling for the keys of a request.

Protocol buffers, JSON mapping: `system_instruction` is read like `systemInstruction`, and the Python
SDK sends both kinds in one body. Keys of the API become camel case at every level. What users wrote
(arguments, responses, schemas, labels) stays as it is.
"""

from collections.abc import Mapping
from typing import TypeAlias

from toolbridge.core.json import Json, JsonObject

NameTree: TypeAlias = "Mapping[str, NameTree | None]"
"""The names inside the value of each key: None leaves the value unchanged. A key that is not listed
uses the tree of `*`; without one, only the key itself is respelled."""

_ALL: "dict[str, NameTree | None]" = {}
_ALL["*"] = _ALL
_MEDIA: NameTree = {"inlineData": _ALL, "fileData": _ALL}
_PART: NameTree = {
    **_MEDIA,
    "functionCall": {"args": None, "partialArgs": _ALL},
    "functionResponse": {"response": None, "parts": _MEDIA},
    "toolCall": {"args": None},
    "toolResponse": {"response": None},
    "partMetadata": None,
    "*": _ALL,
}
_CONTENT: NameTree = {"parts": _PART}
_DECLARATION: NameTree = {
    "parameters": None,
    "parametersJsonSchema": None,
    "response": None,
    "responseJsonSchema": None,
}
_BODY: NameTree = {
    "contents": _CONTENT,
    # A content, or the parts of one, so both trees apply.
    "systemInstruction": {**_PART, "parts": _PART},
    "tools": {"functionDeclarations": _DECLARATION, "*": _ALL},
    "toolConfig": _ALL,
    "safetySettings": _ALL,
    "labels": None,
    "generationConfig": {"responseSchema": None, "responseJsonSchema": None, "*": _ALL},
}


def respell(body: JsonObject) -> JsonObject:
    """Return `body` with the keys of the API in camel case."""
    return _object(body, _BODY)


def _object(value: JsonObject, tree: NameTree) -> JsonObject:
    found: JsonObject = {}
    for key, item in value.items():
        name = camel(key) if "_" in key[1:] else key
        inner = tree.get(name, tree.get("*"))
        found[name] = item if inner is None else _value(item, inner)
    return found


def _value(value: Json, tree: NameTree) -> Json:
    if isinstance(value, dict):
        return _object(value, tree)
    if isinstance(value, list):
        return [_value(item, tree) for item in value]
    return value


def camel(key: str) -> str:
    """Return `key` in camel case."""
    first, *rest = key[1:].split("_")
    return key[:1] + first + "".join(word[:1].upper() + word[1:] for word in rest)
