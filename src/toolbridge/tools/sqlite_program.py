"""The program that runs the queries of `sqlite.query` in a child process.

It is run by its path and imports only the standard library, so it starts quickly and holds no secret
of the gateway. Each input line is a query in JSON, each output line its answer. A query has a time
limit inside SQLite; the caller kills the process if a single function exceeds it. Memory and
processor time are limited by the operating system, where that is supported.
"""

import json
import math
import select
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TextIO
from urllib.parse import quote

MEMORY = 256 * 1024 * 1024
"""The most bytes of memory."""
IDLE = 60.0
"""Seconds after which an idle process exits."""
_STEPS = 1000
"""SQLite instructions between two checks of the time."""

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_PRAGMAS = frozenset(
    {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list"}
)
_FORBIDDEN = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 100,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def main() -> None:
    bound_memory()
    write_line("ready")
    while (line := next_line(sys.stdin)) is not None:
        asked = json.loads(line)
        bound_time(asked["seconds"])
        write_line(json.dumps(answer(asked)))


def write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def next_line(stream: TextIO) -> str | None:
    """Return the next line; None at the end of the input or after `IDLE` seconds."""
    if sys.platform != "win32" and not select.select([stream], [], [], IDLE)[0]:
        return None
    return stream.readline() or None


def bound_memory() -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        # Added to what the interpreter has mapped already; SQLite's own limit is reached first.
        resource.setrlimit(resource.RLIMIT_AS, (4 * MEMORY, 4 * MEMORY))


def bound_time(seconds: float) -> None:
    """Limit the processor time, so that the process ends even if its parent is gone."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        until = math.ceil(used.ru_utime + used.ru_stime + seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))


def answer(asked: dict[str, object]) -> dict[str, object]:
    try:
        with closing(connect(str(asked["file"]), float(str(asked["seconds"])))) as connection:
            return rows_of(connection, asked)
    except MemoryError:
        return {"error": "out of memory"}
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        return {"error": str(error)}


def connect(file: str, seconds: float) -> sqlite3.Connection:
    uri = f"file:{quote(file)}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None)
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)
    connection.text_factory = decoded
    connection.execute("pragma query_only = on")
    connection.execute("pragma trusted_schema = off")
    # Sorting uses memory instead of the disk, and fails beyond the limit.
    connection.execute("pragma temp_store = memory")
    connection.execute(f"pragma hard_heap_limit = {MEMORY}")
    connection.set_authorizer(permit)
    connection.set_progress_handler(is_past(time.monotonic() + seconds), _STEPS)
    return connection


def is_past(until: float) -> Callable[[], bool]:
    return lambda: time.monotonic() > until


def permit(
    action: int, first: str | None, second: str | None, _database: str | None, _inside: str | None
) -> int:
    allowed = (
        action in _ALLOWED
        or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN)
        or (action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS)
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def decoded(written: bytes) -> str:
    return written.decode("utf-8", "replace")


def rows_of(connection: sqlite3.Connection, asked: dict[str, object]) -> dict[str, object]:
    limit, most = int(str(asked["limit"])), int(str(asked["bytes"]))
    parameters = asked["parameters"]
    found = connection.execute(
        str(asked["sql"]), parameters if isinstance(parameters, list) else []
    )
    if found.description is None:
        return {"error": "the statement gives no rows; use a SELECT"}
    header: dict[str, object] = {"columns": [column[0] for column in found.description]}
    rows: list[list[object]] = []
    size = 0
    for row in found:
        values = [shown(value) for value in row]
        size += len(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()) + 1
        if len(rows) == limit or size > most:
            return {**header, "rows": rows, "truncated": True}
        rows.append(values)
    return {**header, "rows": rows}


def shown(value: object) -> object:
    if isinstance(value, bytes):
        return {"blob": len(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


if __name__ == "__main__":
    main()
