"""What a server offers to streams, by its configuration."""

import sqlite3

import pytest
from tests.peers import gateway
from tests.server.test_stream import codes, names, one
from tests.streams import ask, call, refused, reply, scripted, streaming
from tests.tables import every_row

from toolbridge.config import Config, StreamConfig
from toolbridge.core.errors import ConfigError
from toolbridge.runs.catalog import catalog_of

MINE = """
from toolbridge import tool

@tool
def double(n: int) -> int:
    "Twice a number."
    return 2 * n
"""


DEMO_TOOLS = ("bookings.create", "places.search")
DEMO_SCHEMAS = {"Action", *DEMO_TOOLS}


def test_every_stream_may_use_the_clock_and_the_reply():
    catalog = catalog_of(StreamConfig())
    assert catalog.tools.names == ("time.now",)
    assert catalog.schemas.names() == ("AssistantReply",)


@pytest.mark.req("TF-41", "TF-42", "TF-44")
def test_the_setting_demo_adds_two_tools_and_three_schemas():
    catalog = catalog_of(StreamConfig(demo=True))
    assert catalog.tools.names == (*DEMO_TOOLS, "time.now")
    assert set(catalog.schemas.names()) == {"AssistantReply", *DEMO_SCHEMAS}


def test_tools_and_schemas_of_the_configuration_win_over_the_demos(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE.replace("@tool", '@tool(name="places.search")'))
    action = {"type": "string"}
    catalog = catalog_of(StreamConfig(demo=True, tools=(str(file),), schemas={"Action": action}))
    assert catalog.schemas.get("Action") == action
    search = catalog.tools.get("places.search")
    assert search is not None
    assert search.description == "Twice a number."


SEARCH = call("T1", "places.search", {"query": "pizza"})


async def test_a_real_provider_is_not_offered_the_demos_tools():
    async with streaming(scripted(reply()), demo=False) as (url, _, _):
        status, error = await refused(url, {"prompt": "x", "tools": ["places.search"]})
        assert (status, error["code"], error["where"]) == (400, "unknown_tool", "tools.0")
        assert '"profile": "demo"' in error["message"]
        status, error = await refused(url, {"prompt": "x", "objects": ["Action"]})
        assert (status, error["code"], error["where"]) == (400, "unknown_schema", "objects")
        assert "`demo = true`" in error["message"]
        action = {"type": "object"}  # the name is free
        events = await ask(url, {"prompt": "x", "schemas": {"Action": action}})
    assert not codes(events)


@pytest.mark.req("TF-36", "TF-41", "TF-44")
async def test_a_real_provider_uses_them_in_the_profile_demo():
    async with streaming(scripted(SEARCH, reply()), demo=False) as (url, _, _):
        events = await ask(url, {"prompt": "x", "profile": "demo", "model": "there/m"})
    assert one(events, "tool.result")["result"][0]["id"] == "pl_001"
    assert not codes(events)


@pytest.mark.req("TF-41", "TF-42", "TF-43", "TF-44")
async def test_the_demo_model_uses_them_without_any_setting():
    prompt = "Find pizza near me; book a table at 7pm if open."
    body = {"prompt": prompt, "tools": ["places.search", "bookings.create"], "objects": ["Action"]}
    async with gateway(Config(log="off")) as (url, _):
        events = await ask(url, body)
    tools = [event.data["name"] for event in events if event.name == "tool.result"]
    assert tools == ["places.search", "bookings.create"]
    assert names(events)[-1] == "done"


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


@every_row(
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
