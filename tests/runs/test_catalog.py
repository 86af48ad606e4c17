"""What a server offers to streams, by its configuration."""

import sqlite3

import pytest
from tests.server.test_stream import codes, names, one
from tests.streams import ask, call, refused, reply, scripted, streaming

from toolbridge.config import StreamConfig
from toolbridge.core.errors import ConfigError
from toolbridge.runs.catalog import catalog_of

MINE = """
from toolbridge import tool

@tool
def double(n: int) -> int:
    "Twice a number."
    return 2 * n
"""


def test_the_house_offers_three_tools_and_four_schemas():
    terms = catalog_of(StreamConfig())
    assert terms.tools.names == ("bookings.create", "places.search", "time.now")
    assert set(terms.schemas.names()) == {
        "Action", "AssistantReply", "bookings.create", "places.search",
    }  # fmt: skip


@pytest.mark.req("TF-40")
async def test_the_local_profile_reads_files_and_databases_that_are_allowed(tmp_path):
    (tmp_path / "note.txt").write_text("hello")
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("create table t (a)")
        shop.execute("insert into t values (41)")
    shop.close()
    answers = (
        call("T1", "fs.read", {"path": "note.txt"}),
        call("T2", "sqlite.query", {"database": "shop", "sql": "select a + 1 from t"}),
        call("T3", "fs.read", {"path": "../../etc/passwd"}),
        call("T4", "time.now", {}),
        reply(),
    )
    async with streaming(
        scripted(*answers), roots=(str(tmp_path),), databases={"shop": str(tmp_path / "shop.db")}
    ) as (url, _, _):
        events = await ask(url, {"prompt": "x", "profile": "local", "model": "there/m"})
    results = [event.data["result"] for event in events if event.name == "tool.result"]
    assert results[0]["text"] == "hello"
    assert "42" in str(results[1])
    assert results[2]["error"]["code"] == "tool_failed"
    assert "T" in str(results[3])


async def test_functions_marked_as_tools_are_offered(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    answers = (call("T1", "double", {"n": "21"}), reply())
    async with streaming(scripted(*answers), tools=(str(file),)) as (url, _, _):
        events = await ask(url, {"prompt": "x", "tools": ["double"]})
    assert one(events, "tool.call")["args"] == {"n": 21}
    assert one(events, "tool.result")["result"] == 42


async def test_schemas_of_the_configuration_are_known(tmp_path):
    file = tmp_path / "point.json"
    file.write_text(
        '{"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}'
    )
    answer = '⟦BEGIN_RESULT id=R1 schema=Point⟧{"x": 3}⟦END_RESULT id=R1⟧'
    async with streaming(scripted(answer), schemas={"Point": str(file)}) as (url, _, _):
        events = await ask(url, {"prompt": "x", "result": "Point"})
    assert names(events) == ["result.begin", "result.delta", "result.end", "done"]
    assert not codes(events)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"schemas": {"A": {"type": "nonsense"}}}, "stream.schemas.A"),
        ({"schemas": {"A": "no-such-file.json"}}, "stream.schemas.A"),
        ({"tools": ("no_such_module",)}, "stream.tools"),
        ({"tools": ("no_such_file.py",)}, "stream.tools"),
        ({"tools": ("json",)}, "stream.tools"),
    ],
)
def test_a_wrong_configuration_names_its_place(given, where):
    with pytest.raises(ConfigError) as caught:
        catalog_of(StreamConfig(**given))
    assert caught.value.problem.where == where


async def test_limits_can_be_lowered_by_a_caller_and_not_raised():
    long = '⟦BEGIN_RESULT id=R1 schema=AssistantReply⟧{"answer": "' + "x" * 300
    async with streaming(scripted(*[long] * 4), frame=200) as (url, _, _):
        raised = await ask(url, {"prompt": "x", "limits": {"frame": 1000}, "repair_retries": 0})
        assert codes(raised)[0] == "frame_too_large"
        status, _ = await refused(url, {"prompt": "x", "limits": {"frame": 0}})
        assert status == 400
