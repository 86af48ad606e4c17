"""Tool results, cut to the size limit of a stream."""

from toolbridge.core.json import Json, JsonObject, dump_bytes


def presentable(result: Json, most: int) -> Json:
    """Return `result` within `most` bytes; a longer one is replaced by its beginning and its size.

    Clients get it unescaped; the contract escapes sentinel characters for the model.
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
    """Return the beginning of a result as text, and the size of the whole."""
    room = most
    while True:
        start = written[:room].decode("utf-8", "ignore")
        cut: JsonObject = {"truncated": True, "bytes": len(written), "start": start}
        over = len(dump_bytes(cut)) - most
        if over <= 0 or room == 0:
            return cut
        # A quote takes two bytes inside a string, so more than the excess may have to be removed.
        room = max(0, min(room - over, room * 3 // 4))
