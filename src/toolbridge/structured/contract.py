"""The contract of one stream, and the requests to the model that follow from it.

The prompts are in `prompts/`. Sentinel mode works with any text model; all text that the model reads
from outside (messages, schemas, tool results) has its sentinel characters escaped, so that a model
that repeats it opens no frame. Native mode has no sentinels: tools are offered as tools, objects as
tools named `write_<schema>`, and the result is the JSON that the request's schema demands.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import OutputFormat, Part, Request, Sampling, Text, Tool, Turn
from toolbridge.structured.builtin import shown_schema
from toolbridge.structured.document import document_schema, text_key
from toolbridge.structured.flaws import Flaw
from toolbridge.structured.limits import Limits
from toolbridge.structured.schemas import Schemas
from toolbridge.structured.sentinels import Kind, escape, write_begin, write_end

Mode: TypeAlias = Literal["sentinel", "native"]
REPLY = "AssistantReply"
"""The default schema of the final result."""
WRITE = "write_"
"""The prefix of the native tools that take objects."""
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class OfferedTool(msgspec.Struct, frozen=True):
    """A tool that the model may call in this stream."""

    name: str
    description: str = ""
    parameters: JsonObject = msgspec.field(default_factory=dict)
    client: bool = False
    """Whether the caller runs it."""
    returns: JsonObject = msgspec.field(default_factory=dict)
    """JSON Schema of its result; empty for any result."""


class ToolReply(msgspec.Struct, frozen=True):
    """A tool's result, for the model."""

    id: str
    name: str
    result: Json


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """The schemas, tools, limits and prompts of one stream; `contract_of` has checked the names."""

    model: str
    turns: tuple[Turn, ...]
    schemas: Schemas
    objects: tuple[str, ...] = ()
    """Schemas of the objects that the model may write."""
    result: str = REPLY
    tools: tuple[OfferedTool, ...] = ()
    system: str = ""
    mode: Mode = "sentinel"
    tag: str = ""
    """In sentinel mode: the suffix, after a `-`, of every frame id of this stream."""
    structured: bool = True
    """In native mode: whether the request can demand a JSON Schema."""
    bound: bool = False
    """Whether the provider constrains answers to a schema; repairs then use it in every mode."""
    with_tools: bool = True
    """Whether a request can demand a schema and offer tools."""
    document: bool = False
    """In native mode: whether objects and result are written as one JSON document."""
    hold_results: bool = False
    limits: Limits = Limits()
    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    repair_retries: int = 1
    max_tool_calls: int = 16

    def quoted(self, text: str) -> str:
        """Return text from outside with escaped sentinel characters, in sentinel mode."""
        return escape(text) if self.mode == "sentinel" else text

    def shown(self, name: str) -> JsonObject:
        """Return a schema for the model: without the members that only toolbridge writes."""
        return shown_schema(self.schemas.get(name))

    def opening_turns(self) -> list[Turn]:
        """Return the caller's turns for the model."""
        return [
            Turn(turn.role, tuple(self._quoted_part(part) for part in turn.content))
            for turn in self.turns
        ]

    def _quoted_part(self, part: Part) -> Part:
        return Text(self.quoted(part.text)) if isinstance(part, Text) else part

    def object_of(self, tool: str) -> str:
        """Return the schema of the object that a native tool takes; "" for any other tool."""
        name = tool.removeprefix(WRITE)
        return name if self.mode == "native" and name != tool and name in self.objects else ""

    # Requests to the model.

    @property
    def words(self) -> bool:
        """Whether a document may have words among its parts; see `document`."""
        return self.with_tools

    @property
    def tools_first(self) -> bool:
        """Whether answers with tools have no schema, and a last one without tools has it."""
        return (
            self.mode == "native" and bool(self.tools) and self.structured and not self.with_tools
        )

    def simplified(self, *, final: bool) -> "Contract | None":
        """Return the contract for a simpler request for the result, or None.

        The first `final` request has the schema and no tools, the next one no parts.
        """
        if self.tools_first and not final:
            return self
        return msgspec.structs.replace(self, document=False) if self.document else None

    def request(self, turns: Sequence[Turn], *, final: bool = False) -> Request:
        """Return the request for the next answer, after `turns`; a `final` one offers no tools."""
        native = self.mode == "native"
        demands = native and self.structured and (final or not self.tools_first)
        return Request(
            model=self.model,
            turns=_asked(turns, _prompt("final").template.strip()) if final else tuple(turns),
            system=self._system(),
            tools=tuple(self._tools()) if native and not final else (),
            output=self._output() if demands else None,
            sampling=self.sampling,
            max_tokens=self.max_tokens,
            stream=True,
        )

    def repair_request(
        self, name: str, schema: JsonObject, written: str, flaws: Iterable[Flaw]
    ) -> Request:
        """Return the request that repairs one frame."""
        wrong = "\n".join(f"- {flaw.path} {flaw.message}" for flaw in flaws)
        text = _prompt("repair").substitute(
            name=name, schema=self._written(schema),
            flaws=self.quoted(wrong), written=self.quoted(written),
        )  # fmt: skip
        return self._careful((Turn("user", (Text(text),)),), name, schema)

    def result_request(self, turns: Sequence[Turn]) -> Request:
        """Return the request for the result alone, after a conversation that gave none."""
        schema = self.shown(self.result)
        text = _prompt("result").substitute(name=self.result, schema=self._written(schema))
        return self._careful(_asked(turns, text), self.result, schema)

    def _careful(self, turns: tuple[Turn, ...], name: str, schema: JsonObject) -> Request:
        held = self.bound or (self.mode == "native" and self.structured)
        return Request(
            model=self.model,
            turns=turns,
            output=_format(name, schema) if held else None,
            sampling=msgspec.structs.replace(self.sampling, temperature=0.0),
            max_tokens=self.max_tokens,
            stream=True,
        )

    def _output(self) -> OutputFormat:
        if not self.document:
            return _format(self.result, self.shown(self.result))
        objects = {name: self.shown(name) for name in self.objects}
        result = self.shown(self.result)
        return _format("document", document_schema(objects, result, words=self.words))

    def _tools(self) -> Iterable[Tool]:
        for offer in self.tools:
            yield Tool(offer.name, offer.description, offer.parameters)
        for name in () if self.document else self.objects:
            text = f"Show the user an object of the kind {name}."
            yield Tool(f"{WRITE}{name}", text, self.shown(name))

    # The system prompt.

    def _system(self) -> tuple[Text, ...]:
        own = self._native_words() if self.mode == "native" else self._sentinel_words()
        return tuple(Text(text) for text in (self.quoted(self.system), own) if text.strip())

    def _sentinel_words(self) -> str:
        return (
            _prompt("system")
            .substitute(
                forms="\n".join(self._forms()),
                rules="\n".join(self._rules()),
                sections="".join(self._sections()),
            )
            .strip()
        )

    def _native_words(self) -> str:
        rules = [f"Your last answer is JSON of the schema {self.result} and nothing else."]
        if self.document:
            words = f'{{"{text_key(self.objects)}": "..."}} for words, ' if self.words else ""
            rules = [_prompt("document").substitute(result=self.result, words=words).strip()]
        if self.tools:
            rules.append("Before it, call the tools that you need; say nothing beside a call.")
        if self.objects and not self.document:
            names = ", ".join(f"{WRITE}{name}" for name in self.objects)
            rules.append(f"To show an object on the way, call {names}.")
        sections = self._section("Result", ((self.result, "", self.shown(self.result)),))
        if self.document:
            objects = ((name, "", self.shown(name)) for name in self.objects)
            sections = self._section("Objects", objects) + sections
        return _prompt("native").substitute(rules="\n".join(rules), sections=sections).strip()

    def _forms(self) -> Iterable[str]:
        frames: list[tuple[Kind, str, str]] = [
            *(("object", "O1", name) for name in self.objects[:1]),
            *(("tool", "T1", offer.name) for offer in self.tools[:1]),
            ("result", "R1", self.result),
        ]
        suffix = f"-{self.tag}" if self.tag else ""
        for kind, id, name in frames:
            begin, end = write_begin(kind, id + suffix, name), write_end(kind, id + suffix)
            yield f"{begin}{{…}}{end}"

    def _rules(self) -> Iterable[str]:
        if self.tag:
            yield (
                f"- Every id ends in -{self.tag}. A frame whose id does not is not yours: it is"
                " read as text."
            )
        if self.tools:
            yield (
                "- To use a tool, write its frame and stop. You are sent its result and go on from"
                " there. Calls that need no result of each other may follow one another."
            )

    def _sections(self) -> Iterable[str]:
        offers = ((o.name, o.description, o.parameters) for o in self.tools)
        yield self._section("Tools", offers)
        objects = ((name, "", self.shown(name)) for name in self.objects)
        yield self._section("Objects", objects)
        yield self._section("Result", ((self.result, "", self.shown(self.result)),))

    def _section(self, title: str, entries: Iterable[tuple[str, str, JsonObject]]) -> str:
        lines = [
            f"- {name}{f' ({self.quoted(about)})' if about else ''}: {self._written(schema)}"
            for name, about, schema in entries
        ]
        return "\n".join(["", f"{title}, by name and JSON Schema:", *lines, ""]) if lines else ""

    def _written(self, schema: JsonObject) -> str:
        shown: JsonObject = {key: value for key, value in schema.items() if key != "$schema"}
        return self.quoted(dumps(shown))

    def results_text(self, results: Iterable[ToolReply]) -> str:
        """Return the turn with tool results for a text model."""
        parts = [
            f"Result of tool call {reply.id} ({reply.name}), as JSON:\n"
            f"{self.quoted(dumps(reply.result))}"
            for reply in results
        ]
        return _prompt("tool_result").substitute(results="\n\n".join(parts)).strip()


def _asked(turns: Sequence[Turn], text: str) -> tuple[Turn, ...]:
    """Return `turns` and a request of the user; some APIs reject two turns of the same role."""
    if not turns or turns[-1].role != "user":
        return (*turns, Turn("user", (Text(text),)))
    return (*turns[:-1], Turn("user", (*turns[-1].content, Text(text))))


def _format(name: str, schema: JsonObject) -> OutputFormat:
    return OutputFormat(schema=schema, name=_ODD.sub("_", name)[:64], checked=True)


@cache
def _prompt(name: str) -> Template:
    path = files("toolbridge.structured").joinpath("prompts", f"{name}.txt")
    return Template(path.read_text("utf-8"))
