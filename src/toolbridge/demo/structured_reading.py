"""Reads the request of a structured stream: the contract in its system prompt, and the progress.

The system prompt comes from `structured/prompts`. It is read by its headings, so a caller's own text
before them is ignored.
"""

import re
from collections.abc import Iterator

import msgspec

from toolbridge.core.json import Json, JsonObject, loads, maybe_object
from toolbridge.core.messages import Request, Text
from toolbridge.demo.structured_signs import MISSING, REPAIR, SIGN
from toolbridge.structured.grammar import Grammar
from toolbridge.structured.limits import Limits
from toolbridge.structured.pieces import FrameClosed

_HEADING = re.compile(r"^(Tools|Objects|Result), by name and JSON Schema:$", re.MULTILINE)
_ENTRY = re.compile(r"^- ([A-Za-z0-9_.:/-]{1,128}?)(?= \(|: \{)", re.MULTILINE)
_RESULT = re.compile(
    r"^Result of tool call ([\w.-]{1,64}) \(([^()\s]{1,128})\), as JSON:\n([^\n]*)", re.MULTILINE
)
_SCHEMA = re.compile(r"^Schema ([^\s:]{1,128}|[^\s]{1,128}?):\n(\{[^\n]*)$", re.MULTILINE)
_WRITTEN = re.compile(
    r"^What was written:\n(.*)\n\nAnswer with the corrected JSON alone", re.MULTILINE | re.DOTALL
)
_FORM = re.compile(f"{SIGN}R1((?:-[0-9a-f]{{4,16}})?) schema=")
_MOST_TRIES = 32


class SchemaForm(msgspec.Struct, frozen=True):
    """A tool, an object or the result, as described in the system prompt."""

    name: str
    schema: JsonObject
    description: str = ""


class CalledTool(msgspec.Struct, frozen=True):
    """A tool call since the last user message, and its result."""

    name: str
    result: Json
    arguments: JsonObject = {}

    @property
    def failed(self) -> bool:
        return isinstance(self.result, dict) and self.result.keys() == {"error"}


class StructuredPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a structured-stream request."""

    words: str = ""
    tools: tuple[SchemaForm, ...] = ()
    objects: tuple[SchemaForm, ...] = ()
    result: SchemaForm
    called: tuple[CalledTool, ...] = ()
    ids: frozenset[str] = frozenset()
    """The frame ids used in the conversation."""
    tag: str = ""
    """The suffix that every frame id must have."""
    bare: bool = False
    """Whether only the JSON of the result is asked for."""

    def tool(self, name: str) -> SchemaForm | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    def object(self, name: str) -> SchemaForm | None:
        return next((form for form in self.objects if form.name == name), None)


class BrokenFrame(msgspec.Struct, frozen=True):
    """A repair request: one frame that does not fit its schema."""

    form: SchemaForm
    written: str


def maybe_asked(request: Request) -> StructuredPrompt | BrokenFrame | None:
    """Return the contents of a structured-stream request; None for any other request."""
    texts = list(_texts(request, "user"))
    last = texts[-1] if texts else ""
    if last.startswith(REPAIR):
        return _broken(last)
    system = "\n".join(text.text for text in request.system)
    missing = last.startswith(MISSING)
    if not missing and SIGN not in system:
        return None
    forms = {kind: tuple(_forms(section)) for kind, section in _sections(system)}
    result = _named(last) if missing else next(iter(forms.get("Result", ())), None)
    if result is None:
        return None
    frames = list(_frames(request))
    return StructuredPrompt(
        words=next((t for t in reversed(texts) if not _is_program(t)), ""),
        tools=forms.get("Tools", ()),
        objects=forms.get("Objects", ()),
        result=result,
        called=tuple(_called(texts, frames)),
        ids=frozenset(frame.id for frame in frames),
        tag=_tag(system),
        bare=missing,
    )


def _tag(system: str) -> str:
    """Return the tag in the ids of the example frames; the last example is the contract's own."""
    found = _FORM.findall(system)
    return str(found[-1]) if found else ""


def _texts(request: Request, role: str) -> Iterator[str]:
    for turn in request.turns:
        if turn.role == role:
            yield from (part.text.strip() for part in turn.content if isinstance(part, Text))


def _is_program(text: str) -> bool:
    return text.startswith((MISSING, REPAIR)) or _RESULT.match(text) is not None


def _sections(system: str) -> Iterator[tuple[str, str]]:
    headings = list(_HEADING.finditer(system))
    ends = [*(heading.start() for heading in headings[1:]), len(system)]
    for heading, end in zip(headings, ends, strict=False):
        yield heading[1], system[heading.end() : end]


def _forms(section: str) -> Iterator[SchemaForm]:
    at = 0
    while entry := _ENTRY.search(section, at):
        form, at = _form(entry[1], section, entry.end())
        if form is not None:
            yield form


def _form(name: str, section: str, at: int) -> tuple[SchemaForm | None, int]:
    """Return the form whose name ends at `at`; its JSON is at the end of the line."""
    begin = at
    for _ in range(_MOST_TRIES):
        colon = section.find(": {", begin)
        if colon < 0:
            break
        end = section.find("\n", colon)
        end = len(section) if end < 0 else end
        schema = maybe_object(section[colon + 2 : end])
        if schema is not None:
            return SchemaForm(name, schema, section[at:colon].strip().strip("()")), end
        begin = colon + 1
    return None, at


def _named(text: str) -> SchemaForm | None:
    found = _SCHEMA.search(text)
    schema = maybe_object(found[2]) if found else None
    return None if found is None or schema is None else SchemaForm(found[1], schema)


def _broken(text: str) -> BrokenFrame | None:
    form, written = _named(text), _WRITTEN.search(text)
    return None if form is None or written is None else BrokenFrame(form, written[1])


def _frames(request: Request) -> Iterator[FrameClosed]:
    for text in _texts(request, "assistant"):
        grammar = Grammar(Limits())
        pieces = grammar.feed(text) + grammar.close()
        yield from (piece for piece in pieces if isinstance(piece, FrameClosed))


def _called(texts: list[str], frames: list[FrameClosed]) -> Iterator[CalledTool]:
    arguments = {frame.id: maybe_object(frame.body) for frame in frames if frame.kind == "tool"}
    for text in texts:
        if not _is_program(text):
            continue
        for found in _RESULT.finditer(text):
            yield CalledTool(found[2], _value(found[3]), arguments.get(found[1]) or {})


def _value(text: str) -> Json:
    try:
        return loads(text)
    except ValueError:
        return text
