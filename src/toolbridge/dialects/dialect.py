"""The interface of a dialect: `Dialect`, which every dialect file instantiates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from toolbridge.core.messages import Call
from toolbridge.dialects.engines.event_writer import EventWriter
from toolbridge.dialects.engines.tool_list import LINES, ToolList
from toolbridge.wire.tags import Wait


class ReadStream(Protocol):
    """Reads the text of an answer."""

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        """Read a whole answer; `thinking` is True if the prompt opened reasoning."""
        ...


@runtime_checkable
class Continues(Protocol):
    """A reader of answers that continue what the prompt began, such as reasoning."""

    def begun(self, prompt: str) -> str:
        """Return the marks at the end of a prompt that the answer continues."""
        ...


class Render(Protocol):
    """Writes calls and results as text for the history."""

    def calls(self, calls: Sequence[Call]) -> str: ...

    def results(self, results: "Sequence[ResultText]") -> str: ...


@dataclass(frozen=True)
class ResultText:
    """The result of a call, as text."""

    name: str
    id: str
    text: str


@dataclass(frozen=True)
class Dialect:
    """A text format of tool calls and reasoning."""

    name: str
    marks: tuple[str, ...]
    """Text by which an answer in this dialect is recognised."""
    reader: ReadStream
    render: Render
    tools: ToolList = LINES
    """How the template of the model lists the tools."""
