import asyncio

from tests.waiting import until

from toolbridge.server.deadline import Deadline


async def test_a_deadline_fires_once_at_the_time_that_was_set_last():
    loop = asyncio.get_running_loop()
    fired: list[float] = []
    deadline = Deadline(loop, lambda: fired.append(loop.time()))
    started = loop.time()
    deadline.set(0.02)
    deadline.set(0.06)  # later
    await until(lambda: fired)
    await asyncio.sleep(0.05)
    assert len(fired) == 1
    assert fired[0] - started >= 0.059
    deadline.set(60)
    deadline.set(0.01)  # earlier
    await until(lambda: len(fired) == 2)


async def test_a_deadline_that_was_cleared_or_stopped_does_not_fire():
    fired: list[bool] = []
    deadline = Deadline(asyncio.get_running_loop(), lambda: fired.append(True))
    deadline.set(0.01)
    deadline.clear()
    await asyncio.sleep(0.03)
    deadline.set(0.01)
    deadline.stop()
    await asyncio.sleep(0.03)
    assert not fired
