"""(placeholder by the lead so that the server imports; the healing helper replaces this file)"""

from collections.abc import Sequence

from toolbridge.core import events as ev
from toolbridge.core.messages import Call, Tool


class Healer:
    def __init__(self, tools: Sequence[Tool], *, level: int = 2) -> None:
        pass

    def feed(self, event: ev.Event, /) -> list[ev.Event]:
        return [event]

    def close(self) -> list[ev.Event]:
        return []


def past_call(call: Call, tool: Tool) -> Call | None:
    return None
