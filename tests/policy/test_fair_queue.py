"""A queue that is fair between keys."""

from hypothesis import given
from hypothesis import strategies as st

from toolbridge.policy.fair_queue import FairQueue


def drained(queue):
    found = []
    while (item := queue.pop()) is not None:
        found.append(item)
    return found


def test_keys_take_turns():
    queue = FairQueue()
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.add(item[0], item)
    assert drained(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_an_item_that_left_is_not_returned():
    queue = FairQueue()
    for item in ("a1", "a2", "b1"):
        queue.add(item[0], item)
    queue.remove("a", "a1")
    queue.remove("b", "b1")
    assert len(queue) == 1
    assert drained(queue) == ["a2"]
    assert queue.pop() is None


@given(st.lists(st.sampled_from("abc")))
def test_every_item_comes_out_once_and_in_the_order_of_its_key(keys):
    queue = FairQueue()
    for at, key in enumerate(keys):
        queue.add(key, (key, at))
    found = drained(queue)
    assert sorted(found, key=lambda item: item[1]) == [(key, at) for at, key in enumerate(keys)]
    for key in "abc":
        own = [at for other, at in found if other == key]
        assert own == sorted(own)
