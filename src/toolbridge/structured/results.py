"""What a tool gave back, cut to a size that can be told."""

from toolbridge.core.json import Json, JsonObject, dump_bytes


def presentable(result: Json, most: int) -> Json:
    """Return `result` within `most` bytes; what is longer is cut, and says so.

    Clients get it as it is. The contract escapes the sentinel characters in what the model reads.
    """
    try:
        written = dump_bytes(result)
    except (RecursionError, TypeError, ValueError):
        return failure("tool_failed", "the result is not JSON, or is nested too deeply")
    return result if len(written) <= most else _cut(written, most)


def failure(code: str, message: str) -> JsonObject:
    """Return the result of a tool that failed."""
    return {"error": {"code": code, "message": message}}


def _cut(written: bytes, most: int) -> Json:
    """Return the beginning of a result, as text, and how long the whole is."""
    room = most
    while True:
        start = written[:room].decode("utf-8", "ignore")
        cut: JsonObject = {"truncated": True, "bytes": len(written), "start": start}
        over = len(dump_bytes(cut)) - most
        if over <= 0 or room == 0:
            return cut
        # Quotes take two bytes inside a string, so that more than the overhang may have to go.
        room = max(0, min(room - over, room * 3 // 4))
