"""Answers as Python values: the schema of a type for the request, and the value of the answer."""

from dataclasses import replace
from typing import Generic, TypeVar

import msgspec
from msgspec import structs

from toolbridge.core.errors import Incomplete, Refused, SchemaMismatch, error_of
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Message, OutputFormat, StopReason, Text, ToolChoice, Turn
from toolbridge.healing import heal
from toolbridge.healing.reading import read_text
from toolbridge.sdk.streams.options import PreparedAsk
from toolbridge.wire.json_schema import inline

T = TypeVar("T")
_SHOWN = 2000
_BOX = "value"
_AGAIN = "Write your answer now as JSON and nothing else, from what was said so far. Use no tools."


class AnswerType(Generic[T]):
    """The type that an answer should have.

    Most APIs accept only an object as a schema, so any other type is wrapped in an object with one
    member.
    """

    def __init__(self, into: type[T]) -> None:
        self._into = into
        schema = msgspec.json.schema(into)
        inlined, whole = inline(schema)
        schema = inlined if whole else schema
        self._boxed = schema.get("type") != "object"
        self.schema: JsonObject = _box(schema) if self._boxed else schema

    @property
    def output(self) -> OutputFormat:
        return OutputFormat(schema=self.schema, name="answer", checked=True)

    def without_tools(self, asked: PreparedAsk, message: Message) -> PreparedAsk | None:
        """Return the request that asks again for an answer that does not fit; None without tools.

        Some providers accept tools or a schema, so that the schema was only a part of the prompt.
        """
        request = asked.request
        if not request.tools:
            return None
        said = (Turn("assistant", message.content),) if message.content else ()
        again = Turn("user", (Text(_AGAIN),))
        turns = (*request.turns, *said, again)
        simpler = structs.replace(request, turns=turns, tools=(), tool_choice=ToolChoice())
        return replace(asked, request=simpler)

    def read(self, message: Message) -> T:
        """Return the value of an answer; raise if the answer failed or does not fit."""
        text = text_of(message)
        try:
            return self._strict(text)
        except (msgspec.MsgspecError, RecursionError):
            pass
        try:
            value = msgspec.convert(self._healed(text), self._into, strict=False)
        except (msgspec.ValidationError, ValueError) as error:
            raise SchemaMismatch(_complaint(message, error)) from None
        return value

    def _strict(self, text: str) -> T:
        if not self._boxed:
            return msgspec.json.decode(text, type=self._into)
        boxed: Json = msgspec.json.decode(text)
        return msgspec.convert(self._unboxed(boxed), self._into)

    def _unboxed(self, value: Json) -> Json:
        if self._boxed and isinstance(value, dict) and value.keys() == {_BOX}:
            return value[_BOX]
        return value

    def _healed(self, text: str) -> Json:
        """Return the healed value: code fences, prose and broken JSON are tolerated."""
        reading = read_text(text)
        if reading.cut:
            raise ValueError("the answer breaks off")
        if not reading.found:
            return text.strip()
        value = self._unboxed(reading.value)
        whole: Json = {_BOX: value} if self._boxed else value
        if not isinstance(whole, dict):
            return whole
        return self._unboxed(heal(whole, self.schema).value)


def text_of(message: Message) -> str:
    """Return the text of a complete answer; raise if the answer failed.

    A refusal or a cut-off answer raises too; use `complete` to get its text.
    """
    if message.problem is not None:
        raise error_of(message.problem)
    if message.stop == "refusal":
        raise Refused(f"the model declined to answer{_quoted(message.text)}")
    if message.stop in _UNFINISHED:
        raise Incomplete(f"{_UNFINISHED[message.stop]}{_quoted(message.text)}")
    return message.text


_UNFINISHED: dict[StopReason, str] = {
    "length": "the answer was cut at the token limit; raise `max_tokens`",
    "context_overflow": "the answer was cut because the context window is full",
    "pause": "the provider paused the answer; send the conversation back to continue",
    "tool_use": "the model called a tool instead of answering; `run` calls tools and asks again",
    "aborted": "the answer was aborted",
}


def _quoted(text: str) -> str:
    if not text:
        return ""
    return f"; its text: {text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…'}"


def _box(schema: JsonObject) -> JsonObject:
    inner: JsonObject = {key: value for key, value in schema.items() if key != "$defs"}
    box: JsonObject = {"type": "object", "properties": {_BOX: inner}, "required": [_BOX]}
    if "$defs" in schema:
        box["$defs"] = schema["$defs"]
    return box


def _complaint(message: Message, error: Exception) -> str:
    text = message.text
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    cut = " (it was cut at max_tokens)" if message.stop == "length" else ""
    return f"the answer does not fit the type{cut}: {error}; the answer: {shown}"
