"""Questions to a database, read-only and bounded."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.waiting import until

from toolbridge.core.json import dump_bytes
from toolbridge.tools.context import ToolContext
from toolbridge.tools.registry import Registry
from toolbridge.tools.sqlite import MOST, SqliteQuery, query, sqlite_query
from toolbridge.tools.sqlite_process import SqlProcess, SqlProcesses

pytestmark = pytest.mark.req("TF-40")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a b?c%.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "create table city (name text, people integer, area real, flag blob);"
            "insert into city values ('Rome', 2800000, 1285.3, x'0102'), ('Oslo', 700000, null, null);"
            "create view big as select name from city where people > 1000000;"
        )
    return path


async def ask(file, sql, *parameters, seconds=20.0, **more):
    registry = Registry([sqlite_query({"main": file}, seconds=seconds)])
    asked = {"sql": sql, "parameters": list(parameters), **more}
    return await registry.call("sqlite.query", asked, ToolContext(), timeout=20)


@pytest.mark.parametrize(
    ("sql", "parameters", "rows"),
    [
        ("select name, people from city order by people", (), [["Oslo", 700000], ["Rome", 2800000]]),
        ("select area, flag from city", (), [[1285.3, {"blob": 2}], [None, None]]),
        ("select name from city where people > ?", (1e6,), [["Rome"]]),
        ("select name from big;", (), [["Rome"]]),
        ("with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) select i from n",
         (), [[1], [2], [3]]),
        ("pragma table_info(big)", (), [[0, "name", "TEXT", 0, None, 0]]),
        ("select upper('é'), count(*), 1e999 from city", (), [["é", 2, "inf"]]),
        ("select cast(x'ff61' as text)", (), [["\ufffda"]]),
        ("select sql is not null from sqlite_master where name = 'city'", (), [[1]]),
        ("select 'a' where 0", (), []),
    ],
)  # fmt: skip
async def test_a_question_is_answered(file, sql, parameters, rows):
    outcome = await ask(file, sql, *parameters)
    assert outcome.result["rows"] == rows, outcome.message


@pytest.mark.parametrize(
    "sql",
    [
        "insert into city values ('x', 1, 1, null)",
        "update city set people = 0",
        "delete from city",
        "drop table city",
        "create table x (a)",
        "create temp table x (a)",
        "attach '/tmp/x.sqlite' as x",
        "attach ':memory:' as x",
        "vacuum into '/tmp/x.sqlite'",
        "vacuum",
        "reindex",
        "begin exclusive",
        "pragma query_only = off",
        "pragma journal_mode = delete",
        "pragma writable_schema = on",
        "pragma user_version",
        "select load_extension('x')",
        "select LOAD_EXTENSION('x', 'y')",
        "select 1; select 2",
        "select 1; drop table city",
        "with x as (select 1) delete from city",
        "select * from none",
        "select * from pragma_table_info('city')",
        "rubbish",
        "-- nothing",
        "select '" + "x" * 9000 + "' like '" + "%" * 900 + "'",
        "select zeroblob(1000000000)",
        "select 1 \0",
    ],
)
async def test_nothing_else_can_be_done(file, sql):
    before = file.read_bytes()
    outcome = await ask(file, sql)
    assert outcome.result["error"]["reason"] == "rejected", outcome
    assert len(outcome.tries) == 1
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    "sql",
    [
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n",
        """with recursive n(i) as (select 1 union all select i + 1 from n limit 100000000)
        select sum(a.i * b.i) from n a, n b""",
        "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n order by -i",
    ],
)
async def test_a_question_without_end_is_stopped(file, sql):
    outcome = await ask(file, sql, seconds=0.2)
    assert outcome.result["error"]["reason"] == "too_slow"


async def test_rows_and_bytes_are_bounded(file):
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select i{} from n"
    few = (await ask(file, endless.format(""), limit=7)).result
    assert (len(few["rows"]), few["truncated"]) == (7, True)
    wide = (
        await ask(file, endless.format(", zeroblob(9), hex(zeroblob(2000))"), limit=1000)
    ).result
    assert wide["truncated"]
    assert len(dump_bytes(wide)) < MOST + 200


async def test_names_not_paths_choose_the_database(file, tmp_path):
    assert (await ask(file, "select 1", database="main")).result["rows"] == [[1]]
    wrong = await ask(file, "select 1", database=str(file))
    assert wrong.result["error"]["reason"] == "unknown_database"
    none = await Registry([sqlite_query({})]).call(
        "sqlite.query", {"sql": "select 1"}, ToolContext()
    )
    assert none.result["error"]["message"].endswith("none is configured")


async def test_a_missing_file_is_not_made(tmp_path):
    outcome = await ask(tmp_path / "none.sqlite", "select 1")
    assert outcome.result["error"]["reason"] == "rejected"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("parameters", [[1, 2], [], [{"a": 1}], [[1]], [2**70]])
async def test_parameters_must_fit(file, parameters):
    outcome = await ask(file, "select ?", *parameters)
    assert outcome.code in {"tool_failed", "invalid_arguments"}
    assert len(outcome.tries) == 1


async def test_a_database_that_somebody_writes_can_be_read(file):
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("pragma journal_mode = wal")
        writer.execute("begin immediate")
        writer.execute("delete from city")
        assert (await ask(file, "select count(*) from city")).result["rows"] == [[2]]
        writer.execute("rollback")


ONE_FUNCTION = [
    "select instr(hex(zeroblob(450000)), hex(zeroblob(225000)) || '1')",
    "select replace(hex(zeroblob(450000)), hex(zeroblob(225000)) || '1', 'x')",
    "select name from city where instr(hex(zeroblob(450000)), hex(zeroblob(225000)) || name)",
]
"""Each compares 200 GB in one step of SQLite's machine, which its progress handler does not see."""


@pytest.mark.parametrize("sql", ONE_FUNCTION)
async def test_one_function_without_end_is_stopped_and_leaves_nothing_behind(file, sql):
    before = set(threading.enumerate())
    outcome = await ask(file, sql, seconds=0.2)
    assert outcome.result["error"]["reason"] == "too_slow"

    def left():
        new = set(threading.enumerate()) - before
        return [thread for thread in new if thread.name == "toolbridge-tool"]

    await until(lambda: not left())


async def test_a_question_that_needs_too_much_memory_is_refused(file):
    sql = """with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000)
             select i, hex(randomblob(2000)) as x from n order by x"""
    outcome = await ask(file, sql, seconds=20)
    assert outcome.result["error"]["reason"] == "rejected"
    assert "memory" in outcome.result["error"]["message"]


async def test_questions_after_a_stopped_one_and_side_by_side_are_answered(file):
    registry = Registry([sqlite_query({"main": file}, seconds=0.3)])

    async def one(sql):
        return await registry.call("sqlite.query", {"sql": sql}, ToolContext(), timeout=20)

    assert (await one(ONE_FUNCTION[0])).code == "tool_failed"
    outcomes = await asyncio.gather(*[one(f"select {n}") for n in range(12)])
    assert [outcome.result["rows"] for outcome in outcomes] == [[[n]] for n in range(12)]


def test_a_warm_process_answers_the_next_question(file):
    processes = SqlProcesses()
    pids = set()
    for n in range(3):
        found = query(processes, file, SqliteQuery(f"select {n}"), 20)
        assert found["rows"] == [[n]]
        pids |= {process.pid for process in processes._idle}
    assert len(pids) == 1


def test_the_process_is_told_nothing_of_ours(monkeypatch):
    monkeypatch.setenv("PROVIDER_KEY", "hunter2")
    with SqlProcess() as process:
        environment = Path(f"/proc/{process.pid}/environ")
        if not environment.exists():
            pytest.skip("no /proc on this system to look into")
        assert b"hunter2" not in environment.read_bytes()
