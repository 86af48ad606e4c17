"""The events of a structured stream as lines in a terminal.

12 ms  text    I will search for pizza near you.
14 ms  object  O1 Action {"mode":"search","target":{"kind":"time","at":"19:00"}}
15 ms          O1 valid
"""

import re
from collections.abc import Callable, Mapping

from toolbridge.core.json import dumps
from toolbridge.structured import events as fe

_COLOURS = {
    "dim": "2", "object": "36", "tool": "33", "result": "32", "error": "31", "pause": "35",
    "text": "0",
}  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_INDENT = " " * 20
_LONGEST = 400


def wants_colour(env: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return whether to write colours: on a terminal, without NO_COLOR and TERM=dumb."""
    return is_terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def plain(text: str) -> str:
    """Return `text` with control characters replaced, which a terminal would interpret."""
    return _CONTROL.sub("\ufffd", text)


def cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


class Trace:
    """Writes each event as a line; the deltas of one text or object share a line."""

    def __init__(self, write: Callable[[str], object], *, colour: bool) -> None:
        self._write = write
        self._colour = colour
        self._open = ""
        """The id of the block whose line is being written."""

    def write(self, ms: float, event: fe.Event) -> None:
        """Write one event that happened at `ms`."""
        match event:
            case fe.RunTextDelta(text):
                self._go_on(ms, "text", "text", text)
            case fe.JsonBegin(id, schema):
                self._line(ms, "object", f"{id} {schema}", holds=id)
            case fe.ResultBegin(id, schema):
                self._line(ms, "result", f"{id} {schema}", holds=id)
            case fe.JsonDelta(id, chunk):
                self._go_on(ms, "object", id, chunk)
            case fe.ResultDelta(id, chunk):
                self._go_on(ms, "result", id, chunk)
            case fe.JsonEnd():
                self._line(ms, "object", _ending(event))
            case fe.ResultEnd():
                self._line(ms, "result", _ending(event))
            case _:
                self._write_other(ms, event)

    def _write_other(self, ms: float, event: fe.Event) -> None:
        match event:
            case fe.RunToolCall(id, name, args, client):
                who = "  (runs in the client)" if client else ""
                self._line(ms, "tool", f"{id} {name} {dumps(args)}{who}")
            case fe.ToolResult(id, name, result, cached):
                kept = "  (cached)" if cached else ""
                self._line(ms, "tool", f"{id} {name} → {dumps(result)}{kept}")
            case fe.RunError(code, message, id):
                self._line(ms, "error", f"{code}{f' ({id})' if id else ''}: {message}")
            case fe.RunDone():
                self._line(ms, "done", "")
            case _:
                pass

    def note(self, ms: float, text: str) -> None:
        """Write a line that is not an event."""
        self._line(ms, "pause", text)

    def close(self) -> None:
        if self._open:
            self._write("\n")
            self._open = ""

    def _line(self, ms: float, kind: str, text: str, *, holds: str = "") -> None:
        self.close()
        head = self._paint(f"{ms:8.0f} ms", "dim")
        label = self._paint(f"{kind:<7}", kind)
        shown = cut(plain(text).replace("\n", f"\n{_INDENT}"))
        line = f"{head}  {label} {shown}"
        self._write(f"{line.rstrip()}\n" if not holds else f"{line} " if shown else line)
        self._open = holds

    def _go_on(self, ms: float, kind: str, about: str, piece: str) -> None:
        if self._open != about:
            self._line(ms, kind, "", holds=about)
        self._write(plain(piece).replace("\n", f"\n{_INDENT}"))

    def _paint(self, text: str, kind: str) -> str:
        colour = _COLOURS.get(kind, "")
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour and colour else text


def _ending(event: fe.JsonEnd | fe.ResultEnd) -> str:
    """Return how a frame ended: valid, or the status with the value that replaces it."""
    if event.status == "valid":
        return f"{event.id} valid, {event.length} bytes"
    steps = "".join(f"; {step.what}" for step in event.steps)
    made_up = f"; invented: {', '.join(event.invented)}" if event.invented else ""
    return f"{event.id} {event.status.upper()} → {dumps(event.value)}{steps}{made_up}"
