"""A recorded run on a time axis: one row for each text, object, tool and result."""

from collections.abc import Iterable, Iterator

import msgspec

from toolbridge.cli.demo_trace import cut, plain
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject, dumps
from toolbridge.structured import events as fe


class Row(msgspec.Struct):
    """One bar of the chart."""

    kind: str
    label: str
    start: float
    end: float
    note: str = ""
    over: bool = False


def recorded_events(frames: Iterable[JsonObject]) -> Iterator[tuple[float, fe.Event]]:
    """Yield the events of `frames.ndjson` with their times; skip lines that cannot be decoded."""
    for frame in frames:
        ms, name = frame.get("ms"), frame.get("event")
        if not isinstance(ms, int | float) or not isinstance(name, str):
            continue
        try:
            yield float(ms), fe.event_from(name, frame.get("data"))
        except MalformedRequest:
            continue


def rows_of(events: Iterable[tuple[float, fe.Event]]) -> list[Row]:
    """Return the bars of the chart in the order of their start."""
    rows: list[Row] = []
    by_id: dict[str, Row] = {}
    for ms, event in events:
        match event:
            case fe.RunTextDelta(text):
                if not rows or rows[-1].kind != "text":
                    rows.append(Row("text", "text", ms, ms))
                rows[-1].end = ms
                rows[-1].note += text
            case fe.JsonBegin(id, schema) | fe.ResultBegin(id, schema):
                kind = "object" if isinstance(event, fe.JsonBegin) else "result"
                rows.append(by_id.setdefault(id, Row(kind, f"{id} {schema}", ms, ms)))
            case fe.RunToolCall(id, name, args):
                rows.append(by_id.setdefault(id, Row("tool", f"{id} {name}", ms, ms, dumps(args))))
            case fe.RunError(code, message):
                rows.append(Row("error", code, ms, ms, message, over=True))
            case _:
                _go_on(by_id, ms, event)
    return rows


def _go_on(by_id: dict[str, Row], ms: float, event: fe.Event) -> None:
    row = by_id.get(getattr(event, "id", ""))
    if row is None:
        return
    row.end = ms
    match event:
        case fe.JsonDelta(_, chunk) | fe.ResultDelta(_, chunk):
            row.note += chunk
        case fe.JsonEnd() | fe.ResultEnd():
            row.over = True
            if event.status != "valid":
                row.note = f"{event.status.upper()} → {dumps(event.value)}"
                row.note += f" (invented: {', '.join(event.invented)})" if event.invented else ""
        case fe.ToolResult(result=result):
            row.over = True
            row.note += f" → {dumps(result)}"
        case _:
            pass


def draw(rows: list[Row], width: int, *, block: str = "█") -> Iterator[str]:
    """Yield the lines of the chart, none longer than `width`."""
    end = max((row.end for row in rows), default=0.0) or 1.0
    labels = min(max((len(row.label) for row in rows), default=0), 28)
    axis = max(16, (width - labels - 14) // 2)
    last = f"{end:.0f} ms"
    yield f"{'':>{labels + 11}} |0{last:>{axis - 1}}|"
    for row in rows:
        first = min(int(row.start / end * axis), axis - 1)
        size = max(1, round((row.end - row.start) / end * axis))
        bar = (" " * first + block * size)[:axis]
        head = f"{row.start:8.1f}   {cut(plain(row.label), labels):<{labels}} |{bar:<{axis}}| "
        note = " ".join(plain(row.note.replace("\n", " ")).split())
        note += "" if row.over or row.kind == "text" else " (not ended)"
        yield head + cut(note, max(width - len(head), 8))
