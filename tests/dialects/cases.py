"""The cases of dialects: how each is run, and when a reading of it is right."""

import codecs
import json
import random
from collections.abc import Iterable
from pathlib import Path

from toolbridge.core.fold import collect
from toolbridge.core.messages import Call, Tool
from toolbridge.dialects.reader import Reading, TextReader

OWN = Path(__file__).parent / "cases.json"
CLASSES = Path(__file__).parent / "classes.json"
"""Cases by class of fault: each has one scenario, in several dialects."""
SHARED = Path(__file__).parents[2] / "../shared/cases/dialects.json"
DISPUTED = Path(__file__).parents[2] / "docs/dialects-disputed.md"
CUTS = ("whole", "by char", "by 3", "by 7", "bytes")


def load(path: Path) -> list[dict]:
    """Return the cases of a file; ours name the tools that most of them share."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(found, list):
        return found
    shared = found["tools"]
    return [
        {**case, "tools": shared[case["tools"]]} if isinstance(case["tools"], str) else case
        for case in found["cases"]
    ]


def is_hard(case: dict) -> bool:
    return not case.get("policy") and not case.get("ambiguous")


def disputed() -> set[str]:
    """Return the ids of the cases whose expectation is wrong; the page gives the reasons."""
    if not DISPUTED.exists():
        return set()
    lines = DISPUTED.read_text(encoding="utf-8").split("\n")
    return {line.split("`")[1] for line in lines if line.startswith("- `")}


def pieces(text: str, cut: str, seed: str = "") -> Iterable[str]:
    if cut == "whole":
        return [text]
    if cut == "bytes":
        return _byte_pieces(text.encode(), random.Random(seed))
    size = {"by char": 1, "by 3": 3, "by 7": 7}[cut]
    return [text[at : at + size] for at in range(0, len(text), size)]


def _byte_pieces(data: bytes, dice: random.Random) -> Iterable[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    at = 0
    while at < len(data):
        size = dice.randint(1, 9)
        yield decoder.decode(data[at : at + size])
        at += size
    yield decoder.decode(b"", final=True)


def tools_of(case: dict) -> list[Tool] | None:
    if case["layer"] == "reasoning":
        return []
    if not case["tools"]:
        return None  # the corpus says so: no schema is known
    return [Tool(tool["name"], schema=tool.get("parameters") or {}) for tool in case["tools"]]


def faults_of(case: dict, cut: str) -> list[str]:
    """
    Return what is wrong in the reading of a case.

    Parsers that know only calls do one of two things with thoughts: they leave them in the content,
    or they leave them out. In the layer `tool`, either is right.
    """
    if case["layer"] != "tool":
        return faults(case, read(case, cut))
    found = faults(case, read(case, cut, thoughts=False))
    if not found:
        return []
    without = read(case, cut)
    return found if faults(case, Reading(without.content, "", without.calls)) else []


def read(case: dict, cut: str, *, thoughts: bool = True) -> Reading:
    """Read a case; where it says that thoughts are unwanted, those that are read are left out."""
    init = case.get("init") or {}
    reader = TextReader(
        tools_of(case),
        dialect=case["dialect"],
        reasoning_open=init.get("reasoning_open") or init.get("generation_prompt", ""),
        thoughts=None if thoughts and init.get("thinking") is False else thoughts,
    )
    events = []
    for piece in pieces(case["input"], cut, case["id"]):
        events += reader.feed(piece)
    message = collect(events + reader.close())
    return Reading(message.text, message.thinking, message.calls)


def faults(case: dict, reading: Reading) -> list[str]:
    """Return what is wrong in a reading; nothing when it is right."""
    expected = case["expected"]
    found = []
    for field in ("content", "reasoning"):
        wanted = expected[field]
        if wanted is not None and wanted.strip() != getattr(reading, field).strip():
            found.append(f"{field}: {getattr(reading, field)!r} is not {wanted!r}")
    if len(expected["calls"]) != len(reading.calls):
        shown = [(call.name, call.arguments or call.raw) for call in reading.calls]
        return [*found, f"calls: {shown} are not {len(expected['calls'])}"]
    for wanted, call in zip(expected["calls"], reading.calls, strict=True):
        found += _call_faults(wanted, call)
    return found


def _call_faults(wanted: dict, call: Call) -> list[str]:
    found = []
    if "name" in wanted and wanted["name"] != call.name:
        found.append(f"name: {call.name!r} is not {wanted['name']!r}")
    if wanted.get("id") not in {None, call.id}:
        found.append(f"id: {call.id!r} is not {wanted['id']!r}")
    arguments = completed(call)
    if "arguments" in wanted and not same(wanted["arguments"], arguments):
        found.append(f"arguments: {arguments!r} are not {wanted['arguments']!r}")
    for path, value in wanted.get("arguments_contains", ()):
        node = arguments
        for step in path:
            node = node[step] if isinstance(node, list) else _member(node, step)
        if not same(value, node):
            found.append(f"arguments at {path}: {node!r} is not {value!r}")
    raw = "".join(wanted.get("arguments_raw", "").split())
    if raw and not "".join((call.raw or json.dumps(call.arguments)).split()).startswith(raw):
        found.append(f"arguments: {call.raw!r} do not begin with {raw!r}")
    return found


def _member(node: object, key: str) -> object:
    return node.get(key, KeyError) if isinstance(node, dict) else KeyError


def same(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return a == b


def completed(call: Call) -> object:
    """Return the arguments; those of a call that was cut, as far as they came."""
    if not call.raw:
        return call.arguments
    closing: list[str] = []
    in_string = escape = False
    for c in call.raw:
        if in_string:
            in_string = escape or c != '"'
            escape = c == "\\" and not escape
        elif c == '"':
            in_string = True
        elif c in "{[":
            closing.append("}" if c == "{" else "]")
        elif c in "}]" and closing:
            closing.pop()
    text = (call.raw + ('"' if in_string else "")).rstrip()
    text = text.removesuffix(",")
    try:
        return json.loads(text + "".join(reversed(closing)))
    except ValueError:
        return call.raw
