"""Tools by name, and what comes of calling them."""

import asyncio
import subprocess
import sys
import textwrap
import threading

import pytest
from tests.tables import every_row

from toolbridge.core.errors import ConfigError
from toolbridge.store.sqlite import SqliteStore
from toolbridge.tools.context import ToolContext, ToolRefused
from toolbridge.tools.functions import tool
from toolbridge.tools.registry import RegisteredTool, Registry
from toolbridge.tools.threads import Threads

NOBODY = ToolContext()


@pytest.fixture
async def store():
    store = SqliteStore()
    yield store
    await store.close()


def failing(times, error=ValueError, value="well"):
    """Return a tool that fails so often before it is well, and the list of its runs."""
    runs = []

    async def run(arguments, context):
        runs.append(context.key)
        if len(runs) <= times:
            raise error("broken pipe")
        return value

    return RegisteredTool("flaky", "", {}, run), runs


async def test_a_function_is_a_tool_by_its_signature():
    def add(a: int, b: int = 2) -> int:
        """Add numbers."""
        return a + b

    registry = Registry([add])
    found = registry.get("add")
    assert (found.description, found.parameters["required"]) == ("Add numbers.", ["a"])
    assert (await registry.call("add", {"a": 1}, NOBODY)).result == 3


async def test_a_decorated_function_says_more_and_is_given_its_context(store):
    @tool(name="who.am_i", timeout=3.0, idempotent=True)
    async def who(greeting: str, context: ToolContext) -> str:
        return f"{greeting} {context.caller} {context.call}"

    registry = Registry([who])
    found = registry.get("who.am_i")
    assert (found.timeout, found.idempotent, found.waits) == (3.0, True, True)
    assert list(found.parameters["properties"]) == ["greeting"]
    outcome = await registry.call(
        "who.am_i", {"greeting": "hello"}, ToolContext(caller="ada", call="T1", store=store)
    )
    assert outcome.result == "hello ada T1"


async def test_an_unknown_name_is_told_the_nearest():
    registry = Registry([RegisteredTool("places.search", "", {}, lambda _a, _c: None)])
    outcome = await registry.call("place.search", {}, NOBODY)
    assert outcome.code == "unknown_tool"
    assert "'places.search'" in outcome.result["error"]["message"]
    assert (await registry.call("x" * 1000, {}, NOBODY)).message.endswith("known: places.search")


@every_row("name", ["", "a b", "x" * 129, "é", "a\n"])
def test_a_name_that_no_frame_can_carry_is_refused(name):
    with pytest.raises(ConfigError):
        Registry([RegisteredTool(name, "", {}, lambda _a, _c: None)])


def test_a_name_is_given_once():
    one = RegisteredTool("a", "", {}, lambda _a, _c: None)
    with pytest.raises(ConfigError):
        Registry([one, one])
    with pytest.raises(ConfigError):
        Registry([one]).extended([one])


async def test_an_extension_leaves_the_original_alone():
    original = Registry([RegisteredTool("a", "", {}, lambda _a, _c: 1)])
    extended = original.extended([RegisteredTool("b", "", {}, lambda _a, _c: 2)])
    assert (original.names, extended.names) == (("a",), ("a", "b"))
    assert "b" not in original
    assert [t.name for t in extended] == ["a", "b"]
    assert (await extended.call("b", {}, NOBODY)).result == 2


@pytest.mark.req("TF-27")
async def test_a_tool_that_fails_is_asked_again():
    flaky, runs = failing(1)
    outcome = await Registry([flaky]).call("flaky", {}, NOBODY)
    assert (outcome.result, outcome.code, len(runs)) == ("well", "", 2)
    assert [attempt.code for attempt in outcome.tries] == ["tool_failed", ""]
    assert len(set(runs)) == 1, "both runs have the same key"


@pytest.mark.req("TF-27")
@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_a_tool_that_goes_on_failing_is_an_error_as_a_value(retries):
    flaky, runs = failing(99)
    outcome = await Registry([flaky]).call("flaky", {}, NOBODY, retries=retries)
    assert len(runs) == retries + 1
    assert outcome.result == {
        "error": {"code": "tool_failed", "message": "flaky failed: ValueError: broken pipe"}
    }


async def test_a_refusal_and_wrong_arguments_are_not_asked_again():
    runs = []

    def no(n: int) -> None:
        runs.append(n)
        raise ToolRefused("closed", "we are closed")

    registry = Registry([no])
    refused = await registry.call("no", {"n": 1}, NOBODY, retries=5)
    assert refused.result["error"] == {
        "code": "tool_failed", "message": "we are closed", "reason": "closed",
    }  # fmt: skip
    wrong = await registry.call("no", {"n": "many"}, NOBODY, retries=5)
    assert wrong.code == "invalid_arguments"
    assert runs == [1]


@pytest.mark.req("TF-26")
@pytest.mark.parametrize(("idempotent", "expected"), [(False, 1), (True, 2)])
async def test_a_tool_out_of_time_is_run_again_only_where_that_does_no_harm(idempotent, expected):
    runs = []

    async def run(arguments, context):
        runs.append(1)
        await asyncio.sleep(60)

    slow = RegisteredTool("slow", "", {}, run, timeout=0.05, idempotent=idempotent)
    outcome = await Registry([slow]).call("slow", {}, NOBODY)
    assert (outcome.code, len(runs)) == ("tool_timeout", expected)
    assert outcome.result["error"]["message"] == "slow did not end within 50 ms"


@pytest.mark.parametrize(
    ("own", "granted", "expected"),
    [(None, None, 8.0), (30.0, None, 30.0), (None, 2.0, 2.0), (30.0, 2.0, 2.0), (1.0, 2.0, 1.0)],
)
@pytest.mark.req("TF-26")
async def test_a_caller_grants_time_and_a_tool_takes_no_more(monkeypatch, own, granted, expected):
    seen = []
    real = asyncio.wait

    async def wait(tasks, *, timeout):  # noqa: ASYNC109
        seen.append(timeout)
        return await real(tasks, timeout=timeout)

    monkeypatch.setattr("toolbridge.tools.registry.asyncio.wait", wait)
    registry = Registry([RegisteredTool("a", "", {}, lambda _a, _c: 1, timeout=own)])
    await registry.call("a", {}, NOBODY, timeout=granted)
    assert seen == [expected]


async def test_a_coroutine_that_ignores_its_end_does_not_hold_the_caller():
    let_go = asyncio.Event()

    async def stubborn(arguments, context):
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    registry = Registry([RegisteredTool("stubborn", "", {}, stubborn, timeout=0.05)])
    assert (await registry.call("stubborn", {}, NOBODY)).code == "tool_timeout"
    assert not let_go.is_set()
    let_go.set()
    await asyncio.sleep(0.01)


async def test_a_function_that_blocks_does_not_stop_the_loop():
    begun, ended = threading.Event(), threading.Event()

    def block(_arguments, _context):
        begun.set()
        return ended.wait(30)

    async def tick():
        while not begun.is_set():  # noqa: ASYNC110  a thread sets it
            await asyncio.sleep(0.001)
        ended.set()

    ticking = asyncio.create_task(tick())
    registry = Registry([RegisteredTool("block", "", {}, block, timeout=60)])
    assert (await registry.call("block", {}, NOBODY)).result is True
    await ticking


async def test_the_caller_may_leave_and_the_tool_is_cancelled():
    left = asyncio.Event()

    async def wait(arguments, context):
        try:
            await asyncio.sleep(60)
        finally:
            left.set()

    calling = asyncio.create_task(
        Registry([RegisteredTool("w", "", {}, wait)]).call("w", {}, NOBODY)
    )
    await asyncio.sleep(0.02)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await asyncio.wait_for(left.wait(), 20)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, StopIteration, GeneratorExit])
async def test_no_tool_ends_the_server(error):
    def run(arguments, context):
        raise error

    outcome = await Registry([RegisteredTool("bad", "", {}, run)]).call(
        "bad", {}, NOBODY, retries=0
    )
    assert outcome.code == "tool_failed"
    assert error.__name__ in outcome.message


async def test_a_coroutine_that_gives_up_has_failed():
    async def run(arguments, context):
        raise asyncio.CancelledError

    outcome = await Registry([RegisteredTool("bad", "", {}, run)]).call("bad", {}, NOBODY)
    assert (outcome.code, outcome.message) == ("tool_failed", "bad was cancelled")


async def test_threads_are_bounded_and_come_free_again():
    let_go = threading.Event()
    threads = Threads(2)
    registry = Registry(
        [
            RegisteredTool("hang", "", {}, lambda _a, _c: let_go.wait(30), timeout=0.05),
            RegisteredTool("quick", "", {}, lambda _a, _c: 1, timeout=60),
        ],
        threads=threads,
    )
    for _ in range(2):
        await registry.call("hang", {}, NOBODY)
    assert (await registry.call("quick", {}, NOBODY, timeout=0.05)).code == "tool_timeout"
    let_go.set()
    assert (await registry.call("quick", {}, NOBODY)).code == ""


def test_a_tool_that_never_ends_does_not_keep_the_process():
    script = """
        import asyncio, time
        from toolbridge.tools.context import ToolContext
        from toolbridge.tools.registry import RegisteredTool, Registry

        async def main():
            tool = RegisteredTool("forever", "", {}, lambda _a, _c: time.sleep(600), timeout=0.1)
            print((await Registry([tool]).call("forever", {}, ToolContext())).code)

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, timeout=30, check=True, text=True,
    )  # fmt: skip
    assert done.stdout == "tool_timeout\n"


@pytest.mark.req("TF-24")
async def test_a_result_is_capped_and_says_so():
    registry = Registry([RegisteredTool("big", "", {}, lambda _a, _c: "x" * 10_000_000)])
    outcome = await registry.call("big", {}, NOBODY)
    assert outcome.truncated
    assert len(outcome.result) <= 65_536
    assert outcome.result.endswith("… (cut: 10000002 bytes, of which 65536 may be shown)")


async def test_what_is_no_json_is_a_failure_and_not_run_twice():
    runs = []

    def odd(arguments, context):
        runs.append(1)
        return object()

    outcome = await Registry([RegisteredTool("odd", "", {}, odd)]).call("odd", {}, NOBODY)
    assert (outcome.code, len(runs)) == ("tool_failed", 1)


@pytest.mark.req("TF-35")
async def test_a_repeat_with_the_same_key_gets_the_first_result(store):
    flaky, runs = failing(0, value={"n": 1.5})
    registry = Registry([flaky])
    mine = ToolContext(caller="ada", idempotency_key="k1", store=store)
    first = await registry.call("flaky", {"a": 1, "b": [1, {"c": 2}]}, mine)
    again = await registry.call("flaky", {"b": [1.0, {"c": 2}], "a": 1.0}, mine)
    assert (first.cached, again.cached) == (False, True)
    assert first.result == again.result == {"n": 1.5}
    assert len(runs) == 1


@pytest.mark.req("TF-35")
async def test_another_key_caller_tool_or_argument_is_another_call(store):
    runs = []
    tools = [RegisteredTool(name, "", {}, lambda _a, c: runs.append(c.key)) for name in ("a", "b")]
    registry = Registry(tools)
    for caller, key, name, arguments in [
        ("ada", "k", "a", {}),
        ("bob", "k", "a", {}),
        ("ada", "l", "a", {}),
        ("ada", "k", "b", {}),
        ("ada", "k", "a", {"x": 1}),
        ("ada", "k", "a", {"x": "1"}),
    ]:
        context = ToolContext(caller=caller, idempotency_key=key, store=store)
        assert not (await registry.call(name, arguments, context)).cached
    assert len(runs) == 6
    kept = await registry.call("a", {}, ToolContext(caller="ada", idempotency_key="k", store=store))
    assert (kept.cached, kept.result) == (True, None), "null is a result like any other"


async def test_without_a_key_nothing_is_kept(store):
    flaky, runs = failing(0)
    registry = Registry([flaky])
    for _ in range(2):
        assert not (await registry.call("flaky", {}, ToolContext(store=store))).cached
    assert len(set(runs)) == 2


async def test_a_failure_is_not_kept(store):
    flaky, _ = failing(1)
    registry = Registry([flaky])
    mine = ToolContext(idempotency_key="k", store=store)
    assert (await registry.call("flaky", {}, mine, retries=0)).code == "tool_failed"
    outcome = await registry.call("flaky", {}, mine, retries=0)
    assert (outcome.result, outcome.cached) == ("well", False)


@pytest.mark.req("TF-35")
async def test_a_repeat_waits_for_the_first_while_that_still_runs(store):
    runs = []

    async def slow(arguments, context):
        runs.append(1)
        await asyncio.sleep(0.05)
        return len(runs)

    registry = Registry([RegisteredTool("slow", "", {}, slow)])
    mine = ToolContext(idempotency_key="k", store=store)
    outcomes = await asyncio.gather(*(registry.call("slow", {}, mine) for _ in range(5)))
    assert [outcome.result for outcome in outcomes] == [1] * 5
    assert sorted(outcome.cached for outcome in outcomes) == [False, True, True, True, True]


async def test_a_repeat_runs_itself_when_the_first_was_given_up(store):
    runs = []

    begun = asyncio.Event()

    async def slow(arguments, context):
        runs.append(1)
        begun.set()
        if len(runs) == 1:
            await asyncio.Event().wait()
        return len(runs)

    registry = Registry([RegisteredTool("slow", "", {}, slow)])
    mine = ToolContext(idempotency_key="k", store=store)
    first = asyncio.create_task(registry.call("slow", {}, mine))
    await begun.wait()
    second = asyncio.create_task(registry.call("slow", {}, mine))
    await asyncio.sleep(0.01)
    first.cancel()
    assert (await second).result == 2


async def test_a_key_without_a_store_keeps_nothing():
    flaky, runs = failing(0)
    registry = Registry([flaky])
    for _ in range(2):
        assert not (await registry.call("flaky", {}, ToolContext(idempotency_key="k"))).cached
    assert len(runs) == 2
    assert runs[0] == runs[1], "the tool itself can tell"


async def test_a_system_without_threads_is_a_failure_that_passes(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    registry = Registry([RegisteredTool("a", "", {}, lambda _a, _c: 1)], threads=Threads(1))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        assert (await registry.call("a", {}, NOBODY, retries=2)).code == "tool_failed"
    assert (await registry.call("a", {}, NOBODY)).result == 1
