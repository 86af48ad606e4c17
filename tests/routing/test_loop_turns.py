"""Turns of the event loop: other tasks run between the steps of a long computation."""

import asyncio

from toolbridge.routing import loop_turns
from toolbridge.routing.loop_turns import in_turns, next_turn


def steps(seen, count):
    for number in range(count):
        seen.append(number)
        yield
    return "done"


async def test_a_task_that_is_woken_runs_before_the_next_turn():
    seen = []

    async def other():
        await asyncio.sleep(0)
        seen.append("other")

    task = asyncio.create_task(other())
    await next_turn()
    seen.append("turn")
    await task
    assert seen == ["other", "turn"]


async def test_other_tasks_run_between_steps_that_take_long(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(loop_turns, "perf_counter", lambda: next(clock) / 2)
    monkeypatch.setattr(loop_turns, "_LONGEST", 1.0)
    monkeypatch.setattr(loop_turns._LastTurn, "began", -1.0)
    seen = []

    async def other():
        while len(seen) < 9:
            seen.append("other")
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert await in_turns(steps(seen, 4)) == "done"
    await task
    numbers = [one for one in seen if one != "other"]
    assert numbers == [0, 1, 2, 3]
    between = seen[seen.index(0) : seen.index(3)]
    assert "other" in between, "one step fits into a turn of this clock"


async def test_short_steps_share_a_turn(monkeypatch):
    monkeypatch.setattr(loop_turns, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(loop_turns._LastTurn, "began", -1.0)
    seen = []

    async def other():
        while True:
            seen.append("other")
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert await in_turns(steps(seen, 50)) == "done"
    task.cancel()
    first = seen.index(0)
    assert seen[first : first + 50] == list(range(50))


async def test_a_turn_that_has_just_begun_is_not_left(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(loop_turns, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(loop_turns, "_LONGEST", 1.0)
    monkeypatch.setattr(loop_turns._LastTurn, "began", -1.0)
    turns = []

    async def other():
        while True:
            turns.append(clock[0])
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await in_turns(steps([], 3))
    begun = len(turns)
    assert begun, "the first computation begins in a new turn"
    clock[0] = 0.9
    await in_turns(steps([], 3))
    assert len(turns) == begun
    clock[0] = 1.1
    await in_turns(steps([], 3))
    assert len(turns) > begun
    task.cancel()
