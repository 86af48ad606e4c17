"""The event loop behind callers that block."""

import asyncio
import os
import signal
import threading

import pytest

from toolbridge.sdk.loop_thread import LoopClosed, LoopThread


async def nothing() -> None:
    pass


def test_work_is_done_in_a_thread_of_its_own():
    backstage = LoopThread(nothing)

    async def where() -> threading.Thread:
        return threading.current_thread()

    first, second = backstage.run(where()), backstage.run(where())
    assert first is second is not threading.current_thread()
    backstage.close()
    assert not first.is_alive()


def test_what_work_raises_is_raised():
    backstage = LoopThread(nothing)

    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        backstage.run(fail())
    backstage.close()


def test_the_last_thing_is_awaited_before_the_loop_ends():
    done: list[bool] = []

    async def last() -> None:
        await asyncio.sleep(0.01)
        done.append(True)

    backstage = LoopThread(last)
    backstage.run(nothing())
    backstage.close()
    assert done == [True]


def test_a_backstage_that_was_never_used_closes_without_a_loop():
    backstage = LoopThread(nothing)
    backstage.close()
    backstage.close()
    with pytest.raises(LoopClosed):
        backstage.run(nothing())


def test_an_interrupt_ends_the_work():
    backstage = LoopThread(nothing)
    ended = threading.Event()

    async def sleep() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        backstage.run(sleep())
    assert ended.wait(5)
    backstage.close()


def test_work_inside_the_loop_is_refused_rather_than_waited_for():
    backstage = LoopThread(nothing)

    async def inside() -> None:
        backstage.run(nothing())

    with pytest.raises(RuntimeError, match="inside its own tools"):
        backstage.run(inside())
    backstage.close()


def test_it_may_be_closed_from_its_own_loop():
    backstage = LoopThread(nothing)

    async def close() -> threading.Thread:
        backstage.close()
        return threading.current_thread()

    backstage.run(close()).join(5)
    with pytest.raises(LoopClosed):
        backstage.run(nothing())
