"""Writes that wait for the end of a turn: in order, together, and none of them harms another."""

import asyncio

import pytest

from toolbridge.upstream.turn_writes import LARGE, TurnWrites, before_writes


class Recorded(asyncio.Transport):
    """A transport that records its calls."""

    def __init__(self, *, closing=False, error=None):
        super().__init__()
        self.calls = []
        self.closing = closing
        self.error = error

    def is_closing(self):
        return self.closing

    def write(self, data):
        if self.error:
            raise self.error
        self.calls.append(bytes(data))

    def writelines(self, pieces):
        self.calls.append([*pieces])

    def abort(self):
        self.calls.append("abort")


async def test_pieces_of_a_connection_are_one_write_after_the_callbacks_of_the_turn():
    writes, one, other = TurnWrites(), Recorded(), Recorded()
    seen = []
    writes.add(one, b"a")
    asyncio.get_running_loop().call_soon(lambda: seen.append([*one.calls]))
    writes.add(other, b"b")
    writes.add(one, b"c")
    assert one.calls == other.calls == []
    await asyncio.sleep(0)
    assert (one.calls, other.calls) == ([[b"a", b"c"]], [b"b"])
    assert seen == [[[b"a", b"c"]]], "written before what was asked for later"
    writes.add(one, b"d")
    await asyncio.sleep(0)
    assert one.calls[1:] == [b"d"]


async def test_flush_writes_at_once_and_nothing_twice():
    writes, one = TurnWrites(), Recorded()
    writes.add(one, b"a")
    writes.flush()
    assert one.calls == [b"a"]
    writes.add(one, b"b")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert one.calls == [b"a", b"b"]


async def test_pushed_bytes_wait_only_for_what_waits():
    writes, one, other = TurnWrites(), Recorded(), Recorded()
    writes.push(one, b"a")
    assert one.calls == [b"a"]
    writes.add(other, b"b")
    writes.push(other, b"c")
    writes.push(one, b"d")
    assert other.calls == []
    await asyncio.sleep(0)
    assert (one.calls, other.calls) == ([b"a", b"d"], [[b"b", b"c"]])
    noted = []
    before_writes(lambda: noted.append([*one.calls]))
    writes.push(one, b"e")
    await asyncio.sleep(0)
    assert noted == [[b"a", b"d"]], "the bytes were sent before the work that they wait for"
    assert one.calls[2:] == [b"e"]


async def test_a_push_to_a_connection_that_is_closed_or_fails_raises_nothing():
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    writes, closed, broken = TurnWrites(), Recorded(closing=True), Recorded(error=OSError("gone"))
    writes.push(closed, b"a")
    writes.push(broken, b"a")
    assert (closed.calls, broken.calls) == ([], ["abort"])
    assert [str(context["exception"]) for context in reported] == ["gone"]


async def test_a_connection_that_is_closed_or_fails_does_not_stop_the_others():
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    writes, closed, last = TurnWrites(), Recorded(closing=True), Recorded()
    broken = Recorded(error=RuntimeError("gone"))
    for transport in (closed, broken, last):
        writes.add(transport, b"a")
    await asyncio.sleep(0)
    assert (closed.calls, broken.calls, last.calls) == ([], ["abort"], [b"a"])
    assert [str(context["exception"]) for context in reported] == ["gone"]


async def test_many_bytes_of_a_connection_do_not_wait():
    writes, one, other = TurnWrites(), Recorded(), Recorded()
    big = b"x" * LARGE
    writes.add(one, big)
    assert one.calls == [big]
    writes.add(one, b"a")
    writes.add(other, b"b")
    writes.add(one, b"c")
    assert one.calls == [big]
    writes.add(one, big[:-2])
    assert one.calls[1:] == [[b"a", b"c", big[:-2]]], "in order, as soon as they are many"
    assert other.calls == []
    writes.add(one, b"d")
    await asyncio.sleep(0)
    assert one.calls[2:] == [b"d"]
    assert other.calls == [b"b"]


@pytest.mark.parametrize("way", ["turn", "flush", "large", "many"])
async def test_work_before_the_writes_is_done_before_any_byte_is_written(way):
    writes, one, other, seen = TurnWrites(), Recorded(), Recorded(), []
    TurnWrites().add(other, b"z")  # of the earliest request, and of other connections
    writes.add(one, b"a")
    before_writes(lambda: seen.append([*one.calls, *other.calls]))
    if way == "flush":
        writes.flush()
    elif way == "large":
        writes.add(Recorded(), b"x" * LARGE)
    elif way == "many":
        writes.add(one, b"x" * LARGE)
    assert seen == ([] if way == "turn" else [[]])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == [[]], "once, and first"
    assert one.calls
    assert other.calls == [b"z"]


async def test_work_without_a_write_is_done_at_the_end_of_the_turn_and_its_failure_harms_no_write():
    reported, seen, one = [], [], Recorded()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    before_writes(lambda: seen.append(1))
    await asyncio.sleep(0)
    assert seen == [1]
    before_writes(lambda: 1 / 0)
    before_writes(lambda: seen.append(2))
    TurnWrites().add(one, b"a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (seen, one.calls) == ([1, 2], [b"a"])
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]
