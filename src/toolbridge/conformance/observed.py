"""What a client observed in an answer, in terms that fit every API.

The strict readers in `clients/` fill an `Observed`; the judge compares it with the case.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from toolbridge.core.json import Json, JsonObject, loads, maybe_object


class ObservedCall(msgspec.Struct):
    """A tool call as the client read it."""

    name: str
    id: str = ""
    written: str = ""
    closed: bool = False
    """Whether the stream marked the call as complete."""

    @property
    def arguments(self) -> JsonObject | None:
        return {} if not self.written.strip() else maybe_object(self.written)


class ObservedServerCall(msgspec.Struct):
    """A call of a server tool as the client read it, with its result."""

    kind: str
    """`web_search`, `web_fetch`, `code_execution`, `tool_search` or `mcp`."""
    subject: str
    """The query, the address, the code, or the name of an MCP server's tool."""
    id: str
    urls: list[str] = []
    output: str = ""
    failed: bool = False
    done: bool = False


class Observed(msgspec.Struct):
    """An answer as the client read it, and the rules of the API that it broke."""

    text: str = ""
    thinking: str = ""
    calls: list[ObservedCall] = []
    server_calls: list[ObservedServerCall] = []
    cited: list[str] = []
    """The addresses of the pages that the text cites."""
    searches: int | None = None
    """The number of searches in the usage; None where the API does not count them."""
    order: list[str] | None = None
    """Kinds of block in their order; None where the API has no order between text and calls."""
    stop: str = ""
    """The stop reason, in the API's own word."""
    input: int = 0
    output: int = 0
    early_input: int | None = None
    """Input tokens in the first event; None where the API does not report them there."""
    terminal: Literal["finished", "error", "none"] = "none"
    error: str = ""
    keep_alives: int = 0
    faults: list[str] = []

    def fault(self, text: str) -> None:
        if len(self.faults) < 8:  # one broken rule breaks others; the first faults explain the rest
            self.faults.append(text)

    def add(self, kind: str) -> None:
        """Record that a block of `kind` comes next."""
        if self.order is not None:
            self.order.append(kind)

    def check_calls(self, *, cut: bool = False) -> None:
        """Record calls without a name, a unique id or complete arguments: no API allows them.

        With `cut` the answer ended at its token limit, so the last call may be incomplete.
        """
        ids = [call.id for call in self.calls]
        for id, count in Counter(ids).items():
            if not id or count > 1:
                self.fault(f"{count} calls have the id {id!r}")
        for call in self.calls:
            if not call.name:
                self.fault("a call has no name")
            if call.closed and call.arguments is None and not (cut and call is self.calls[-1]):
                self.fault(
                    f"the arguments of {call.name} are not a JSON object: {call.written[:80]}"
                )


def parse(data: str | bytes, seen: Observed) -> JsonObject | None:
    """Return the JSON object in an event's data or a line; record a fault and return None if invalid."""
    try:
        value: Json = loads(data)
    except ValueError as error:
        seen.fault(f"an event is not JSON ({error}): {data[:80]!r}")
        return None
    if isinstance(value, dict):
        return value
    seen.fault(f"an event is not a JSON object: {data[:80]!r}")
    return None


def require(seen: Observed, where: str, found: JsonObject, names: Sequence[str]) -> None:
    """Record a fault if `found` lacks any of the members `names`."""
    if lacking := [name for name in names if name not in found]:
        seen.fault(f"{where} lacks {', '.join(lacking)}")
