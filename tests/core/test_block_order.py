from tests.tables import every_row

from toolbridge.core import events as ev
from toolbridge.core.block_order import BlockOrder
from toolbridge.core.messages import Call, Foreign, Text

START, END = ev.TextStart, lambda index: ev.TextEnd(index, Text("a"))


def delta(index, text="a"):
    return ev.TextDelta(index, text)


def call(index):
    return [ev.CallStart(index, "c", "f"), ev.CallEnd(index, Call("c", "f"))]


ONE = [START(0), delta(0), END(0)]
TWO = [START(1), delta(1), END(1)]
PICTURE = ev.PartAdded(3, Foreign("x", "y", {}))


@every_row(
    ("given", "written"),
    [
        ([*ONE, *TWO], [*ONE, *TWO]),
        ([START(0), *TWO, delta(0), END(0)], [*ONE, *TWO]),
        ([START(0), START(1), delta(0), delta(1), END(0), END(1)], [*ONE, *TWO]),
        ([START(0), *call(2), *TWO, delta(0), END(0)], [*ONE, *call(2), *TWO]),
        ([START(0), PICTURE, *TWO, delta(0), END(0)], [*ONE, PICTURE, *TWO]),
        ([PICTURE, *ONE], [PICTURE, *ONE]),
    ],
)
def test_one_block_ends_before_the_next_begins(given, written):
    order = BlockOrder()
    assert [event for one in given for event in order.feed(one)] == written
    assert order.current == -1
    assert order.flush() == []


def test_events_pass_as_soon_as_their_block_is_the_oldest_open_one():
    order = BlockOrder()
    assert order.feed(START(0)) == [START(0)]
    assert order.feed(START(1)) == []
    assert order.feed(delta(1)) == []
    assert order.feed(END(0)) == [END(0), START(1), delta(1)]
    assert order.current == 1
    assert order.feed(delta(1, "b")) == [delta(1, "b")]


def test_after_a_failure_the_held_events_come_once():
    order = BlockOrder()
    for event in [START(0), *TWO, *call(2)]:
        order.feed(event)
    assert order.flush() == [*TWO, *call(2)]
    assert order.flush() == []
