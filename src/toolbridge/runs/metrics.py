"""Computes `metrics.json` from the events of a run: durations, repairs, tools, degraded frames."""

from collections import Counter

from toolbridge.core.json import Json, JsonObject
from toolbridge.runs.frames import EventFrame


class RunMetrics:
    def __init__(self) -> None:
        self._first: float | None = None
        self._last = 0.0
        self._events: Counter[str] = Counter()
        self._statuses: Counter[str] = Counter()
        self._codes: Counter[str] = Counter()
        self._begun: dict[str, EventFrame] = {}
        self._frames: list[JsonObject] = []
        self._tools: list[JsonObject] = []

    def note(self, frame: EventFrame) -> None:
        self._first = frame.ms if self._first is None else self._first
        self._last = frame.ms
        self._events[frame.event] += 1
        id = str(frame.data.get("id", ""))
        match frame.event:
            case "json.begin" | "result.begin" | "tool.call":
                self._begun[id] = frame
            case "json.end" | "result.end":
                self._frames.append(self._ended(id, frame))
            case "tool.result":
                self._tools.append(self._answered(id, frame))
            case "error":
                self._codes[str(frame.data.get("code"))] += 1
            case _:
                pass

    def summary(self) -> JsonObject:
        """Return the content of `metrics.json`; times in milliseconds."""
        return {
            "first_event_ms": self._first,
            "total_ms": self._last,
            "events": dict(sorted(self._events.items())),
            "frame_ms": _spread(self._frames),
            "tool_ms": _spread(self._tools),
            "repairs": self._statuses["repaired"] + self._statuses["degraded"],
            "heals": self._statuses["healed"],
            "degraded": [frame["id"] for frame in self._frames if frame["status"] == "degraded"],
            "errors": dict(sorted(self._codes.items())),
            "frames": list(self._frames),
            "tools": list(self._tools),
        }

    def _ended(self, id: str, frame: EventFrame) -> JsonObject:
        began = self._begun.pop(id, frame)
        status = str(frame.data.get("status", "valid"))
        self._statuses[status] += 1
        return {
            "id": id,
            "kind": frame.event.partition(".")[0],
            "schema": began.data.get("schema"),
            "ms": round(frame.ms - began.ms, 3),
            "bytes": frame.data.get("length"),
            "status": status,
        }

    def _answered(self, id: str, frame: EventFrame) -> JsonObject:
        began = self._begun.pop(id, frame)
        row: JsonObject = {
            "id": id,
            "name": frame.data.get("name"),
            "ms": round(frame.ms - began.ms, 3),
        }
        result = frame.data.get("result")
        error = result.get("error") if isinstance(result, dict) else None
        if isinstance(error, dict):
            row["code"] = error.get("code")
        if frame.data.get("cached"):
            row["cached"] = True
        return row


def _spread(rows: list[JsonObject]) -> JsonObject:
    """Return the count, p50, p95, maximum and mean of the times of `rows`."""
    times = sorted(float(ms) for row in rows if isinstance(ms := row["ms"], float | int))
    if not times:
        return {"count": 0}
    share: Json = round(sum(times) / len(times), 3)
    return {
        "count": len(times),
        "p50": times[(len(times) - 1) // 2],
        "p95": times[int(len(times) * 0.95)],
        "max": times[-1],
        "mean": share,
    }
