"""Slots of a llama.cpp server: a conversation keeps its own, side requests use the last."""

from hypothesis import given
from hypothesis import strategies as st

from toolbridge.policy.slots import LIVE, SlotTable


class Server:
    """A table whose requests end at once, unless they are held."""

    def __init__(self, slots: int) -> None:
        self.table = SlotTable()
        self.slots = slots
        self.now = 0.0

    def hold(self, session: str, kind="main") -> int | None:
        self.now += 1
        return self.table.take(session, kind, self.slots, self.now)

    def ask(self, session: str, kind="main") -> int | None:
        slot = self.hold(session, kind)
        if slot is not None:
            self.table.release(slot)
        return slot


def test_one_slot_is_never_chosen():
    server = Server(1)
    assert [server.ask("a"), server.ask("a", "background")] == [None, None]


def test_two_slots_keep_the_conversation_apart_from_side_requests():
    server = Server(2)
    asked = [
        ("a", "main"),
        ("a", "background"),
        ("a", "main"),
        ("a+agent", "subagent"),
        ("a", "main"),
    ]
    assert [server.ask(*one) for one in asked] == [0, 1, 0, 1, 0]


def test_each_conversation_has_a_slot_while_there_are_enough():
    server = Server(4)
    assert [server.ask(name) for name in "abcabc"] == [0, 1, 2, 0, 1, 2]
    assert server.ask("d") is None  # the server chooses: no conversation loses its prompt
    assert [server.ask(name) for name in "abc"] == [0, 1, 2]


def test_a_conversation_that_ended_leaves_its_slot_to_the_next():
    server = Server(3)
    assert [server.ask("a"), server.ask("b")] == [0, 1]
    server.now += LIVE
    assert server.ask("b") == 1
    assert server.ask("c") == 0
    assert server.ask("a") is None


def test_a_busy_slot_is_not_waited_for():
    server = Server(3)
    assert server.hold("a") == 0
    assert server.ask("a") is None
    assert server.hold("a", "background") == 2
    assert server.ask("a", "background") is None
    server.table.release(2)
    assert server.ask("a", "background") == 2


def test_subagents_run_beside_one_another_and_yield_to_conversations():
    server = Server(4)
    assert server.ask("a") == 0
    assert [server.hold(f"agent {n}", "subagent") for n in range(4)] == [1, 2, 3, None]
    for slot in (1, 2, 3):
        server.table.release(slot)
    assert server.ask("agent 1", "subagent") == 2  # its own, where its prompt is
    assert [server.ask("b"), server.ask("c")] == [1, 2]


def test_a_server_that_restarted_with_fewer_slots():
    server = Server(4)
    assert [server.ask(name) for name in "abc"] == [0, 1, 2]
    server.slots = 2
    assert [server.ask(name) for name in "abc"] == [0, None, None]


REQUESTS = st.tuples(st.sampled_from("abcde"), st.sampled_from(("main", "background", "subagent")))


@given(st.integers(1, 5), st.lists(REQUESTS | st.integers(0, 5), max_size=40))
def test_no_two_requests_run_in_one_slot(slots, steps):
    server, running = Server(slots), []
    for step in steps:
        if isinstance(step, int):
            if running:
                server.table.release(running.pop(step % len(running)))
            continue
        slot = server.hold(*step)
        if slot is not None:
            assert 0 <= slot < slots
            assert slot not in running
            running.append(slot)


def test_a_subagent_of_the_last_slot_keeps_the_slot_that_it_gets_later():
    server = Server(3)
    server.hold("other", "subagent")
    assert server.ask("a", "subagent") == 2
    server.table.release(1)
    server.now += LIVE + 1
    assert [server.ask("a", "subagent"), server.ask("a", "subagent")] == [1, 1]
