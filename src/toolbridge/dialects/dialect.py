"""What every dialect offers: the door of each file in this folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from toolbridge.core.messages import Call
from toolbridge.dialects.engines.event_writer import EventWriter
from toolbridge.wire.tags import Wait


class ReadStream(Protocol):
    def __call__(self, scribe: EventWriter, *, thinking: bool = False) -> Wait[None]:
        """Read a whole answer; `thinking` when the prompt has opened a thought already."""
        ...


class Render(Protocol):
    """How calls and results stand in the history."""

    def calls(self, calls: Sequence[Call]) -> str: ...

    def results(self, results: "Sequence[ResultText]") -> str: ...


@dataclass(frozen=True)
class ResultText:
    """What came back for a call, as text."""

    name: str
    id: str
    text: str


@dataclass(frozen=True)
class Dialect:
    name: str
    marks: tuple[str, ...]
    """What an answer in this dialect is known by."""
    reader: ReadStream
    render: Render
