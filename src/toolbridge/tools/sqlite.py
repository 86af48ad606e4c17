"""`sqlite.query`: read-only, bounded queries to the allowed database files.

The file is opened read-only, the connection has `query_only` set, and an authorizer permits only
reading tables and calling functions. Statements run in separate processes (`sqlite_process`), so that
a slow one can be killed, even inside one SQL function, and its memory is limited.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from toolbridge.core.json import JsonObject
from toolbridge.tools.context import ToolContext, ToolRefused
from toolbridge.tools.functions import schema_of
from toolbridge.tools.registry import RegisteredTool
from toolbridge.tools.sqlite_process import ProcessDied, SqlProcesses, TooSlow
from toolbridge.tools.structs import read_arguments

SECONDS = 2.0
MOST = 32_768
"""The most bytes of all rows."""


class SqliteQuery(msgspec.Struct, frozen=True):
    """Query a database."""

    sql: Annotated[str, Meta(min_length=1, max_length=10_000, description="one SELECT statement")]
    parameters: Annotated[
        tuple[str | int | float | bool | None, ...],
        Meta(max_length=100, description="values for the question marks in it"),
    ] = ()
    database: Annotated[str, Meta(max_length=128, description="its name; the first if empty")] = ""
    limit: Annotated[int, Meta(ge=1, le=1000, description="rows at most")] = 100


def sqlite_query(databases: Mapping[str, Path], *, seconds: float = SECONDS) -> RegisteredTool:
    """Return the tool for `databases`: name → file."""
    allowed = {name: Path(path).absolute() for name, path in databases.items()}

    processes = SqlProcesses()

    def run(arguments: JsonObject, _context: ToolContext) -> JsonObject:
        asked = read_arguments(arguments, SqliteQuery)
        return query(processes, _file(allowed, asked.database), asked, seconds)

    names = ", ".join(allowed)
    return RegisteredTool(
        "sqlite.query",
        f"Read from a SQLite database with one SELECT statement. Databases: {names}.",
        schema_of(SqliteQuery),
        run,
        idempotent=True,
    )


def _file(allowed: Mapping[str, Path], name: str) -> Path:
    name = name or next(iter(allowed), "")
    if name not in allowed:
        there = f"known: {', '.join(allowed)}" if allowed else "none is configured"
        raise ToolRefused("unknown_database", f"there is no database {name!r}; {there}")
    return allowed[name]


def query(processes: SqlProcesses, file: Path, asked: SqliteQuery, seconds: float) -> JsonObject:
    """Return the columns and rows of a query; raise `ToolRefused`."""
    question: JsonObject = {
        "file": str(file),
        "sql": asked.sql,
        "parameters": list(asked.parameters),
        "limit": asked.limit,
        "seconds": seconds,
        "bytes": MOST,
    }
    try:
        answer = processes.ask(question, seconds)
    except TooSlow:
        raise _too_slow(seconds) from None
    except (ProcessDied, OSError) as error:
        raise ToolRefused("rejected", f"{file.name}: the query was stopped: {error}") from None
    wrong = answer.get("error")
    if wrong == "interrupted":
        raise _too_slow(seconds)
    if wrong is not None:
        raise ToolRefused("rejected", f"{file.name}: {wrong}")
    return answer


def _too_slow(seconds: float) -> ToolRefused:
    return ToolRefused("too_slow", f"the query took longer than {seconds:g} s; select less")
