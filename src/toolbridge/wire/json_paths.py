"""Paths in a JSON body: find the field that an error names, and change or remove it.

Servers write a field as `max_tokens`, `maxTokens`, `reasoning.effort`, `tools[6].function.strict` or
`messages.3.content.0.tool_use.text`. `locate` returns it as a path of this module: steps joined by
dots, in which `*` is every item of a list and `*:tool_use` every item with that type or role. Such a
path fits later bodies too. `edit` copies only the objects on the path; the rest is shared.
"""

import re
from collections.abc import Callable, Iterator

from toolbridge.core.json import Json, JsonObject

_DEEPEST = 3
_LISTS = ("messages", "input", "contents", "tools")
_INDEX = re.compile(r"\[(\d+)\]")


class Removed:
    """The result of a change that removes the value."""


REMOVED = Removed()
Change = Callable[[Json], Json | Removed]


def edit(body: JsonObject, path: str, change: Change) -> JsonObject:
    """Return `body` with every value at `path` changed; `body` itself if none is changed."""
    edited = _edit(body, path.split("."), change)
    return edited if isinstance(edited, dict) else body


def remove(body: JsonObject, path: str) -> JsonObject:
    """Return `body` without the values at `path`."""
    return edit(body, path, lambda _: REMOVED)


def _edit(node: Json, steps: list[str], change: Change) -> Json | Removed:
    if not steps:
        return change(node)
    first, rest = steps[0], steps[1:]
    if isinstance(node, list) and first.startswith("*"):
        tag = first[2:]
        items = [_edit(item, rest, change) if _fits(item, tag) else item for item in node]
        if all(new is old for new, old in zip(items, node, strict=True)):
            return node
        return [item for item in items if not isinstance(item, Removed)]
    if not isinstance(node, dict) or first not in node:
        return node
    new = _edit(node[first], rest, change)
    if new is node[first]:
        return node
    if isinstance(new, Removed):
        return {key: value for key, value in node.items() if key != first}
    return {key: new if key == first else value for key, value in node.items()}


def _fits(item: Json, tag: str) -> bool:
    return not tag or (isinstance(item, dict) and tag in (item.get("type"), item.get("role")))


def value_at(body: JsonObject, path: str) -> Json:
    """Return the value at a path without `*`; None if there is no such value."""
    node: Json = body
    for step in path.split("."):
        node = node.get(step) if isinstance(node, dict) else None
    return node


def locate(body: JsonObject, name: str) -> str:
    """Return the path of the field that a server calls `name`; empty if `body` has none."""
    steps = [step for step in _INDEX.sub(r".\1", name).split(".") if step not in {"", "$", "body"}]
    if not steps:
        return ""
    found = _walk(body, steps)
    if found or len(steps) > 1:
        return found
    for holder in _holders(body, "", _DEEPEST):
        if found := _walk(body, [*filter(None, holder.split(".")), steps[0]]):
            return found
    return _in_lists(body, steps[0])


def locate_value(body: JsonObject, value: str) -> str:
    """Return the path of the first field, outside of lists, whose value is `value`."""
    for holder in _holders(body, "", _DEEPEST):
        node = value_at(body, holder) if holder else body
        for key, found in node.items() if isinstance(node, dict) else ():
            if found == value and key != "model":
                return f"{holder}.{key}".lstrip(".")
    return ""


def _walk(node: Json, steps: list[str]) -> str:
    """Return the path of `steps` below `node`; a step that is an item's type may be written too."""
    path: list[str] = []
    for number, step in enumerate(steps):
        if isinstance(node, list):
            if not step.isdigit() or int(step) >= len(node):
                return ""
            node = node[int(step)]
            path.append(_item(node))
            continue
        if not isinstance(node, dict):
            return ""
        key = next((spelling for spelling in _spellings(step) if spelling in node), "")
        if key:
            node = node[key]
            path.append(key)
        elif number in {0, len(steps) - 1}:
            return ""
    return ".".join(path)


def _item(node: Json) -> str:
    tag = (node.get("type") or node.get("role")) if isinstance(node, dict) else None
    return f"*:{tag}" if isinstance(tag, str) and tag.isidentifier() else "*"


def _spellings(name: str) -> Iterator[str]:
    """Yield `name` itself, in snake_case and in camelCase."""
    yield name
    yield re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)
    yield re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def _holders(node: Json, path: str, depth: int) -> Iterator[str]:
    """Yield the paths of `node` and of the objects inside it, the outer ones first."""
    if not isinstance(node, dict):
        return
    yield path
    for key, value in node.items() if depth else ():
        yield from _holders(value, f"{path}.{key}".lstrip("."), depth - 1)


def _in_lists(body: JsonObject, name: str) -> str:
    """Return the path of a field of messages or tools."""
    for key in _LISTS:
        items = body.get(key)
        for item in items if isinstance(items, list) else ():
            for holder in _holders(item, "", 1):
                node = value_at(item, holder) if holder and isinstance(item, dict) else item
                if isinstance(node, dict) and name in node:
                    return ".".join(filter(None, (key, _item(item), holder, name)))
    return ""
