"""The event loop behind callers that block."""

import asyncio
import os
import signal
import threading

import pytest

from toolbridge.sdk.streams.loop_thread import LoopClosed, LoopThread


async def nothing() -> None:
    pass


def test_work_is_done_in_a_thread_of_its_own():
    loop_thread = LoopThread(nothing)

    async def where() -> threading.Thread:
        return threading.current_thread()

    first, second = loop_thread.run(where()), loop_thread.run(where())
    assert first is second is not threading.current_thread()
    loop_thread.close()
    assert not first.is_alive()


def test_what_work_raises_is_raised():
    loop_thread = LoopThread(nothing)

    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        loop_thread.run(fail())
    loop_thread.close()


def test_the_last_thing_is_awaited_before_the_loop_ends():
    done: list[bool] = []

    async def last() -> None:
        await asyncio.sleep(0.01)
        done.append(True)

    loop_thread = LoopThread(last)
    loop_thread.run(nothing())
    loop_thread.close()
    assert done == [True]


def test_a_loop_thread_that_was_never_used_closes_without_a_loop():
    loop_thread = LoopThread(nothing)
    loop_thread.close()
    loop_thread.close()
    with pytest.raises(LoopClosed):
        loop_thread.run(nothing())


def test_an_interrupt_ends_the_work():
    loop_thread = LoopThread(nothing)
    ended = threading.Event()

    async def sleep() -> None:
        # From here on the main thread waits in `run`, so the signal cannot come too early.
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    # A shell starts background jobs with SIGINT ignored, and Python then installs no handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop_thread.run(sleep())
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.wait(5)
    loop_thread.close()


def test_work_inside_the_loop_is_refused_rather_than_waited_for():
    loop_thread = LoopThread(nothing)

    async def inside() -> None:
        loop_thread.run(nothing())

    with pytest.raises(RuntimeError, match="inside its own tools"):
        loop_thread.run(inside())
    loop_thread.close()


def test_it_may_be_closed_from_its_own_loop():
    loop_thread = LoopThread(nothing)

    async def close() -> threading.Thread:
        loop_thread.close()
        return threading.current_thread()

    loop_thread.run(close()).join(20)
    with pytest.raises(LoopClosed):
        loop_thread.run(nothing())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_of_the_process_gets_an_error_and_does_not_wait():
    loop_thread = LoopThread(nothing)
    loop_thread.run(nothing())
    if (pid := os.fork()) == 0:
        signal.alarm(20)
        try:
            loop_thread.run(nothing())
        except RuntimeError as error:
            loop_thread.close()
            os._exit(7 if "make a new client in the child process" in str(error) else 1)
        os._exit(2)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    loop_thread.run(nothing())
    loop_thread.close()
