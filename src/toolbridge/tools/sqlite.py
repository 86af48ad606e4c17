"""`sqlite.query`: questions to database files that are allowed, read-only and bounded.

The file is opened for reading, the connection is told not to write, and what a statement may do is
asked before each step of it: reading tables and calling functions, nothing else. A statement that
runs too long is stopped from inside SQLite, so no thread is left behind.
"""

import math
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta

from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.tools.context import Context, Refused
from toolbridge.tools.functions import schema_of
from toolbridge.tools.registry import Tool
from toolbridge.tools.structs import read_arguments

SECONDS = 2.0
MOST = 32_768
"""Bytes of all rows."""
_STEPS = 1000
"""How many instructions SQLite works before it looks at the clock."""

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
_TOO_LONG = "the query took longer than"


class SqliteQuery(msgspec.Struct, frozen=True):
    """Ask a database."""

    sql: Annotated[str, Meta(min_length=1, max_length=10_000, description="one SELECT statement")]
    parameters: Annotated[
        tuple[str | int | float | bool | None, ...],
        Meta(max_length=100, description="values for the question marks in it"),
    ] = ()
    database: Annotated[str, Meta(max_length=128, description="its name; the first if empty")] = ""
    limit: Annotated[int, Meta(ge=1, le=1000, description="rows at most")] = 100


def sqlite_query(databases: Mapping[str, Path], *, seconds: float = SECONDS) -> Tool:
    """Return the tool for the files of `databases`, by the names that a caller uses."""
    allowed = {name: Path(path).absolute() for name, path in databases.items()}

    def run(arguments: JsonObject, _context: Context) -> JsonObject:
        asked = read_arguments(arguments, SqliteQuery)
        return query(_file(allowed, asked.database), asked, seconds)

    names = ", ".join(allowed)
    return Tool(
        "sqlite.query",
        f"Read from a SQLite database with one SELECT statement. Databases: {names}.",
        schema_of(SqliteQuery),
        run,
        idempotent=True,
    )


def _file(allowed: Mapping[str, Path], name: str) -> Path:
    name = name or next(iter(allowed), "")
    if name not in allowed:
        there = f"there are {', '.join(allowed)}" if allowed else "none is allowed"
        raise Refused("unknown_database", f"there is no database {name!r}; {there}")
    return allowed[name]


def query(file: Path, asked: SqliteQuery, seconds: float) -> JsonObject:
    try:
        with closing(_connect(file, seconds)) as connection:
            return _answer(connection, asked)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        if str(error) == "interrupted":
            raise Refused("too_slow", f"{_TOO_LONG} {seconds:g} s; ask for less") from None
        raise Refused("rejected", f"{file.name}: {error}") from None


def _connect(file: Path, seconds: float) -> sqlite3.Connection:
    uri = f"file:{quote(str(file))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None)
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)
    connection.text_factory = _text
    connection.execute("pragma query_only = on")
    connection.execute("pragma trusted_schema = off")
    connection.set_authorizer(_permit)
    until = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    return connection


def _permit(
    action: int, first: str | None, second: str | None, _database: str | None, _inside: str | None
) -> int:
    allowed = (
        action in _ALLOWED
        or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN)
        or (action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS)
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _text(written: bytes) -> str:
    return written.decode("utf-8", "replace")


def _answer(connection: sqlite3.Connection, asked: SqliteQuery) -> JsonObject:
    found = connection.execute(asked.sql, asked.parameters)
    if found.description is None:
        raise Refused("rejected", "the statement gives no rows; use a SELECT")
    rows: list[Json] = []
    size = 0
    for row in found:
        told: list[Json] = [_told(value) for value in row]
        size += len(dump_bytes(told)) + 1
        if len(rows) == asked.limit or size > MOST:
            return {"columns": _columns(found), "rows": rows, "truncated": True}
        rows.append(told)
    return {"columns": _columns(found), "rows": rows}


def _columns(found: sqlite3.Cursor) -> list[Json]:
    return [column[0] for column in found.description]


def _told(value: str | bytes | float | None) -> Json:
    if isinstance(value, bytes):
        return {"blob": len(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
