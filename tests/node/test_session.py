"""Sessions against a node that follows the facts, and breaks them when told to."""

import asyncio
import json
import logging
import time
from contextlib import aclosing, asynccontextmanager
from itertools import count

import pytest
from tests.node.server import ANSWER, HOST, Node, Scene, running

from toolbridge.core import events as ev
from toolbridge.core.errors import (
    Aborted,
    Overloaded,
    Rejected,
    TimedOut,
    TooLarge,
    ToolbridgeError,
    Unreachable,
)
from toolbridge.core.fold import collect
from toolbridge.core.usage import Usage
from toolbridge.node import line as line_module
from toolbridge.node import seal
from toolbridge.node.exchange import Prompt
from toolbridge.node.jobs import FundingUnresolved, GivenJob, Host, Job
from toolbridge.node.line import Waits, socket_url
from toolbridge.node.pool import NodePool
from toolbridge.node.seal import Secret
from toolbridge.node.session import NodeSession, Settings

WALLET = Secret.from_hex("12" * 32)
QUICK = Waits(connect=1, init=0.4, first=0.4, next=0.3, grace=0.2)
TEXT = "".join(ANSWER)


class TestPurse:
    """Pays with numbers, and remembers everything."""

    __test__ = False

    def __init__(self, node: Node, **job):
        self.host = Host(node.url, seal.public_key(HOST))
        self.job = job
        self.numbers = count(101)
        self.opened: list[Job] = []
        self.closed: list[Job] = []
        self.over: set[str] = set()
        self.error: ToolbridgeError | None = None
        self.pause = 0.0

    async def open(self):
        await asyncio.sleep(self.pause)
        if self.error:
            raise self.error
        self.opened.append(Job(str(next(self.numbers)), self.host, "repo:file", **self.job))
        return self.opened[-1]

    async def is_active(self, job):
        return job.id not in self.over

    async def close(self, job):
        self.closed.append(job)


@asynccontextmanager
async def session_with(node=None, *, waits=QUICK, job=None, **settings):
    async with running() as own:
        node = node or own
        purse = TestPurse(node, **(job or {}))
        session = NodeSession(purse, WALLET, Settings(waits, **settings))
        try:
            yield session, node, purse
        finally:
            await session.close()


def prompt(text="hi", *, stops=(), **body):
    return Prompt({"prompt": text, "model": "m", "max_tokens": 50, "stream": True} | body, stops)


async def told(session, asked=None):
    """Return the message of one answer, whole or failed."""
    events = []
    async with aclosing(session.answer(asked or prompt())) as batches:
        async for batch in batches:
            assert batch
            events += batch
    assert isinstance(events[-1], ev.Finished | ev.Failed)
    return collect(events)


async def works(session):
    """The next request is answered as if nothing had been."""
    message = await told(session)
    assert message.stop == "end"
    assert message.text == TEXT


class TestPlainAnswers:
    async def test_an_answer_comes_through(self):
        async with session_with() as (session, node, _):
            message = await told(session)
        assert message.text == TEXT
        assert message.stop == "end"
        assert message.usage == Usage(input=11, output=3)
        assert node.heard[0].prompt["prompt"] == "hi"

    @pytest.mark.req("CB-15")
    async def test_a_session_is_made_with_the_first_request_used_again_and_ended(self):
        async with session_with() as (session, node, purse):
            assert not purse.opened
            for _ in range(3):
                await works(session)
            assert (len(purse.opened), node.connections) == (1, 1)
            await session.close()
            assert purse.closed == purse.opened
            await asyncio.sleep(0.05)
            assert node.closed == [1000]

    @pytest.mark.req("CB-20")
    async def test_the_wallet_signs_and_checkpoints_are_sealed_to_it(self):
        async with session_with() as (session, node, _):
            await works(session)
        inside = node.inits[0]["inside"]
        assert inside["jobId"] == "101"
        assert inside["recoveryPublicKey"] == "0x" + seal.public_key(WALLET).hex()

    async def test_no_prompt_sets_off_a_search(self):
        async with session_with() as (session, node, _):
            await works(session)
        assert node.heard[0].outside["max_searches"] == 0

    async def test_an_address_that_an_old_node_made_up_is_no_failure(self, caplog):
        caplog.set_level(logging.DEBUG, "toolbridge.node")
        async with running(recovers_old=True) as old, session_with(old) as (session, *_):
            await works(session)
        assert any("takes" in record.message for record in caplog.records)

    async def test_a_large_prompt_is_sent_in_several_frames(self):
        async with session_with(waits=Waits(grace=0.2)) as (session, node, _):
            message = await told(session, prompt("x" * 9_000_000))
            assert message.stop == "end"
            assert len(node.heard[0].prompt["prompt"]) == 9_000_000

    async def test_a_prompt_that_no_node_takes_is_refused(self, monkeypatch):
        monkeypatch.setattr(line_module, "MAX_MESSAGE", 2000)
        async with session_with() as (session, *_):
            with pytest.raises(TooLarge):
                await told(session, prompt("x" * 3000))
            await works(session)


class TestMemory:
    async def test_fresh_sessions_share_the_job_and_no_history(self):
        async with session_with(memory="fresh") as (session, node, _):
            await works(session)
            await works(session)
        names = [heard.session_id for heard in node.heard]
        assert len(set(names)) == 2
        assert [init["inside"]["jobId"] for init in node.inits] == ["101", "101"]
        keys = [init["inside"]["sessionKey"] for init in node.inits]
        assert len(set(keys)) == 2
        assert all(len(said) == 1 for said in node.history.values())

    async def test_a_reset_makes_the_node_forget(self):
        async with session_with(memory="reset") as (session, node, _):
            await works(session)
            await works(session)
        assert {heard.session_id for heard in node.heard} == {"101"}
        assert len(node.history["101"]) == 1
        assert len(node.resets) == 2

    async def test_a_kept_session_needs_one_handshake_and_counts_its_prompts(self):
        async with session_with(memory="keep") as (session, node, _):
            await works(session)
            await works(session)
        assert len(node.inits) == 1
        assert [heard.aad for heard in node.heard] == ["message_0", "message_1"]


class TestQueue:
    @pytest.mark.req("CB-16")
    async def test_requests_run_one_at_a_time_first_in_first_out(self):
        async with session_with() as (session, node, _):
            node.play(*(Scene(pause=0.01) for _ in range(5)))
            tasks = []
            for n in range(5):
                tasks.append(asyncio.create_task(told(session, prompt(str(n)))))
                await asyncio.sleep(0)
            messages = await asyncio.gather(*tasks)
        assert [m.text for m in messages] == [TEXT] * 5
        assert [heard.prompt["prompt"] for heard in node.heard] == list("01234")
        assert node.most_at_once == 1
        assert node.dropped == []

    async def test_whoever_leaves_the_queue_is_not_asked_for(self):
        async with session_with() as (session, node, _):
            node.play(Scene(pause=0.05))
            first = asyncio.create_task(told(session, prompt("1")))
            await asyncio.sleep(0)
            second = asyncio.create_task(told(session, prompt("2")))
            third = asyncio.create_task(told(session, prompt("3")))
            await asyncio.sleep(0.02)
            second.cancel()
            assert (await first).stop == "end"
            assert (await third).stop == "end"
            assert session.waiting == 0
        assert [heard.prompt["prompt"] for heard in node.heard] == ["1", "3"]

    async def test_a_slow_reader_does_not_hold_the_queue_once_its_answer_is_whole(self):
        async with session_with() as (session, *_), aclosing(session.answer(prompt())) as slow:
            async for batch in slow:
                if isinstance(batch[-1], ev.Finished):
                    break
            await asyncio.wait_for(works(session), 1)

    async def test_several_sessions_run_side_by_side(self):
        async with running() as node:
            purse = TestPurse(node)
            pool = NodePool(lambda: NodeSession(purse, WALLET, Settings(QUICK)), 2)
            node.play(*(Scene(pause=0.02) for _ in range(3)))
            messages = await asyncio.gather(*(told(pool) for _ in range(3)))
            await pool.close()
        assert [m.text for m in messages] == [TEXT] * 3
        assert node.most_at_once == 2
        assert len(purse.opened) == len(purse.closed) == 2

    async def test_a_pool_opens_no_more_than_is_needed(self):
        async with running() as node:
            purse = TestPurse(node)
            pool = NodePool(lambda: NodeSession(purse, WALLET, Settings(QUICK)), 2)
            await works(pool)
            await works(pool)
            await pool.close()
        assert len(purse.opened) == 1


class TestStopping:
    async def test_a_client_that_leaves_stops_the_node(self):
        async with session_with() as (session, node, purse):
            node.play(Scene(tuple("abcdefghij"), pause=0.03))
            async with aclosing(session.answer(prompt())) as batches:
                async for _ in batches:
                    break
            await works(session)
            assert len(node.cancelled) == 1
            assert len(purse.opened) == 1
            assert node.dropped == []

    async def test_a_task_that_is_cancelled_before_the_first_word_stops_the_node(self):
        async with session_with() as (session, node, purse):
            node.play(Scene(wrong="silence"))
            task = asyncio.create_task(told(session))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await works(session)
            assert len(node.cancelled) == 1
            assert len(purse.opened) == 1

    async def test_a_node_that_does_not_stop_is_hung_up_on(self):
        async with session_with() as (session, node, purse):
            node.play(Scene(tuple("abc" * 50), pause=0.02, deaf=True))
            async with aclosing(session.answer(prompt(max_tokens=200))) as batches:
                async for _ in batches:
                    break
            before = time.monotonic()
            await works(session)
            assert time.monotonic() - before < 1
            assert len(purse.opened) == 2

    async def test_a_stop_sequence_cuts_the_text_and_stops_the_node(self):
        async with session_with() as (session, node, _):
            node.play(Scene(("one ", "EN", "D two", "x", "y"), pause=0.02))
            message = await told(session, prompt(stops=("END",)))
            assert (message.text, message.stop) == ("one ", "stop_sequence")
            assert message.stop_sequence == "END"
            assert len(node.cancelled) == 1
            await works(session)
            assert node.connections == 1

    async def test_a_node_that_writes_more_than_asked_is_stopped(self):
        async with session_with() as (session, node, _):
            node.play(Scene(tuple("abcdef"), pause=0.02, obeys_limit=False))
            message = await told(session, prompt(max_tokens=2))
            assert (message.text, message.stop) == ("ab", "length")
            assert len(node.cancelled) == 1
            await works(session)

    async def test_a_node_that_keeps_the_limit_says_so(self):
        async with session_with() as (session, node, _):
            node.play(Scene(tuple("abcdef")))
            message = await told(session, prompt(max_tokens=2))
        assert (message.text, message.stop) == ("ab", "length")
        assert node.cancelled == []


class TestOldNodes:
    @pytest.mark.parametrize("responds", [True, False])
    async def test_an_answer_without_an_end_is_whole_after_the_grace(self, responds):
        patient = Waits(first=30, next=30, grace=0.2)
        async with session_with(waits=patient) as (session, node, purse):
            node.play(Scene(ends=False, responds=responds, counts=False))
            message = await asyncio.wait_for(told(session), 3)
            assert (message.text, message.stop) == (TEXT, "end")
            assert message.usage == Usage(output=3)
            await works(session)
            assert len(purse.opened) == 1

    async def test_an_answer_without_counts_is_counted(self):
        async with session_with() as (session, node, _):
            node.play(Scene(counts=False))
            assert (await told(session)).usage == Usage(output=3)


BROKEN = [
    ("cut", "truncated"),
    ("close", "truncated"),
    ("drop", "broken_wire"),
    ("swap", "broken_wire"),
    ("replay", "broken_wire"),
    ("flip", "broken_wire"),
    ("stall", "timed_out"),
    ("engine", "rejected"),
]


class TestFaults:
    @pytest.mark.parametrize(("wrong", "kind"), BROKEN)
    async def test_a_fault_in_the_answer_is_told_and_the_next_request_works(self, wrong, kind):
        async with session_with() as (session, node, _):
            node.play(Scene(wrong=wrong, pause=0.01))
            before = time.monotonic()
            message = await told(session)
            assert time.monotonic() - before < QUICK.next + 1
            assert message.problem.kind == kind
            assert TEXT.startswith(message.text) or wrong == "engine"
            await works(session)

    @pytest.mark.parametrize("wrong", ["drop", "swap", "replay", "flip", "engine", "stall"])
    async def test_a_fault_of_the_answer_costs_no_new_session(self, wrong):
        async with session_with() as (session, node, purse):
            node.play(Scene(wrong=wrong, pause=0.01))
            await told(session)
            await works(session)
            assert len(purse.opened) == 1

    async def test_an_answer_under_another_key_is_refused(self):
        async with session_with() as (session, node, _):
            node.play(Scene(wrong="other_key", pause=0.01))
            message = await told(session)
            assert (message.problem.kind, message.text) == ("broken_wire", "")
            await works(session)

    async def test_a_node_that_never_begins_is_waited_for_once(self):
        async with session_with() as (session, node, purse):
            node.play(Scene(wrong="silence"))
            before = time.monotonic()
            message = await told(session)
            assert QUICK.first <= time.monotonic() - before < QUICK.first + 1
            assert message.problem.kind == "timed_out"
            await works(session)
            assert len(purse.opened) == 1

    async def test_a_slow_answer_may_take_longer_than_any_one_wait(self):
        waits = Waits(first=0.3, next=0.3, grace=0.2)
        async with session_with(waits=waits) as (session, node, _):
            node.play(Scene(tuple("abcdefgh"), pause=0.08))
            assert (await told(session)).text == "abcdefgh"

    async def test_a_node_that_is_silent_even_when_stopped_is_hung_up_on(self):
        async with session_with() as (session, node, purse):
            node.play(Scene(wrong="silence", deaf=True))
            assert (await told(session)).problem.kind == "timed_out"
            await works(session)
            assert len(purse.opened) == 2

    async def test_greetings_do_not_keep_a_stalled_answer_alive(self):
        async with session_with() as (session, node, _):
            node.play(Scene(wrong="stall", pause=0.01))

            async def chatter():
                while True:
                    for socket in list(node.sockets):
                        await socket.send('{"type":"connected"}')
                    await asyncio.sleep(0.05)

            task = asyncio.create_task(chatter())
            message = await asyncio.wait_for(told(session), 2)
            task.cancel()
            assert message.problem.kind == "timed_out"

    async def test_a_picture_instead_of_an_answer_is_an_error(self):
        async with session_with() as (session, node, _):
            node.play(Scene(wrong="picture"))
            assert (await told(session)).problem.kind == "unsupported"
            await works(session)

    async def test_nothing_at_all_is_an_error(self):
        async with session_with() as (session, node, _):
            node.play(Scene(wrong="nothing"))
            assert "too long" in (await told(session)).problem.text
            await works(session)

    @pytest.mark.parametrize("ends", [True, False])
    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            ({"error": "engine failed"}, "rejected"),
            ({"code": "TOKEN_LIMIT_EXCEEDED", "message": "long", "prompt_tokens": 9,
              "context_window_size": 5}, "context_overflow"),
            ({"code": "INVALID_PAYLOAD", "message": "bad"}, "rejected"),
        ],
    )  # fmt: skip
    async def test_both_shapes_of_an_error_are_told_and_drained(self, fault, kind, ends):
        async with session_with() as (session, node, purse):
            node.play(Scene(fault=fault, fault_ends=ends))
            assert (await told(session)).problem.kind == kind
            await works(session)
            assert len(purse.opened) == 1

    async def test_a_busy_node_is_left_alone(self):
        async with session_with() as (session, node, _):
            limited = {"error": "Rate limit exceeded, retry after 60 seconds"}
            node.play(Scene(fault=limited))
            assert (await told(session)).problem.retry_after == 60
            with pytest.raises(Overloaded) as caught:
                await told(session)
            assert 50 < caught.value.problem.retry_after <= 60
        assert len(node.heard) == 1


class TestRecovery:
    async def test_a_forgotten_key_is_renewed_on_the_same_job(self):
        async with session_with(memory="keep") as (session, node, purse):
            await works(session)
            node.forget()
            await works(session)
            assert len(node.inits) == 2
            assert (len(purse.opened), node.connections) == (1, 1)

    async def test_a_key_that_is_forgotten_again_and_again_is_an_error(self):
        async with session_with() as (session, node, purse):
            node.play(Scene(wrong="restart"), Scene(wrong="restart"))
            with pytest.raises(Rejected, match="SESSION_KEY_NOT_FOUND"):
                await told(session)
            assert len(purse.opened) == 1
            await works(session)

    @pytest.mark.req("CB-17")
    @pytest.mark.parametrize("code", ["SESSION_NOT_FOUND", "SESSION_NOT_ACTIVE"])
    async def test_a_session_that_is_over_is_dropped_and_asked_for_again_once(self, code):
        async with session_with() as (session, node, purse):
            node.play(Scene(fault={"code": code, "message": "gone"}))
            await works(session)
            assert len(purse.opened) == 2
            node.play(*(Scene(fault={"code": code, "message": "gone"}) for _ in range(2)))
            with pytest.raises(Rejected, match="gone"):
                await told(session)

    async def test_a_forgotten_key_on_a_job_that_is_over_needs_a_new_job(self):
        async with session_with() as (session, node, purse):
            node.play(Scene(wrong="restart"))
            purse.over.add("101")
            await works(session)
            assert [job.id for job in purse.opened] == ["101", "102"]

    async def test_a_connection_that_went_in_silence_takes_its_job_with_it(self):
        async with session_with() as (session, node, purse):
            await works(session)
            node.restart()
            await asyncio.sleep(0.05)
            await works(session)
            assert [job.id for job in purse.opened] == ["101", "102"]
            assert [job.id for job in purse.closed] == ["101"]

    async def test_a_cut_before_the_first_word_is_mended_once(self):
        async with session_with() as (session, node, purse):
            node.play(Scene(wrong="cut", at=0))
            await works(session)
            assert len(purse.opened) == 2
            node.play(Scene(wrong="cut", at=0), Scene(wrong="cut", at=0))
            with pytest.raises(Unreachable):
                await told(session)
            assert len(purse.opened) == 3

    async def test_a_cut_after_the_first_word_is_not_asked_again(self):
        async with session_with() as (session, node, _):
            node.play(Scene(wrong="cut"))
            assert (await told(session)).problem.kind == "truncated"
            assert len(node.heard) == 1

    async def test_an_unresolved_payment_is_never_followed_by_another(self):
        async with session_with() as (session, _, purse):
            purse.error = FundingUnresolved("sent, but nobody knows what became of it")
            with pytest.raises(FundingUnresolved):
                await told(session)
            purse.error = None
            with pytest.raises(FundingUnresolved):
                await told(session)
            assert purse.opened == []

    async def test_a_client_that_leaves_in_mid_payment_leaves_the_job_to_the_next(self):
        async with session_with() as (session, node, purse):
            purse.pause = 0.1
            task = asyncio.create_task(told(session))
            await asyncio.sleep(0.05)
            task.cancel()
            await works(session)
            assert [job.id for job in purse.opened] == ["101"]
            assert len(node.heard) == 1

    async def test_a_payment_that_is_under_way_at_the_stop_is_given_back(self):
        async with session_with() as (session, _, purse):
            purse.pause = 0.1
            task = asyncio.create_task(told(session))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.sleep(0)
            await session.close()
            assert len(purse.opened) == 1
            assert purse.closed == purse.opened

    async def test_a_payment_that_fails_may_be_tried_again(self):
        async with session_with() as (session, _, purse):
            purse.error = Rejected("no money")
            with pytest.raises(Rejected, match="no money"):
                await told(session)
            purse.error = None
            await works(session)

    async def test_a_deposit_that_is_nearly_used_up_is_followed_by_a_new_one(self):
        async with session_with(job={"max_tokens": 10}) as (session, node, purse):
            asked = prompt(max_tokens=4)
            for _ in range(4):
                assert (await told(session, asked)).stop == "end"
        jobs = [heard.session_id.partition("-")[0] for heard in node.heard]
        assert jobs == ["101", "101", "101", "102"]
        assert len(purse.opened) == 2

    async def test_no_more_is_asked_for_than_the_deposit_pays(self):
        async with session_with(job={"max_tokens": 10}) as (session, node, _):
            await told(session, prompt(max_tokens=5000))
        assert node.heard[0].prompt["max_tokens"] == 10


class TestHandshakes:
    async def test_a_node_that_does_not_answer_is_given_up(self):
        async with session_with() as (session, node, _):
            node.init_scenes.append("silence")
            before = time.monotonic()
            with pytest.raises(TimedOut, match="handshake"):
                await told(session)
            assert time.monotonic() - before < QUICK.init + 1.5
            await works(session)

    @pytest.mark.parametrize("fault", [{"code": "SESSION_AUTH_DENIED"}, {"error": "no"}])
    async def test_a_refusal_is_told(self, fault):
        async with session_with() as (session, node, _):
            node.init_scenes.append(fault)
            with pytest.raises(Rejected):
                await told(session)
            await works(session)

    async def test_a_cut_in_the_handshake_is_mended_once(self):
        async with session_with() as (session, node, _):
            node.init_scenes.append("cut")
            await works(session)
            assert node.connections == 2

    async def test_a_wrong_host_key_is_told_before_any_answer(self):
        async with running() as node:
            host = Host(node.url, seal.public_key(Secret.from_hex("99" * 32)))
            session = NodeSession(GivenJob(Job("1", host, "m")), WALLET, Settings(QUICK))
            with pytest.raises(Rejected, match="DECRYPTION_FAILED"):
                await told(session)
            await session.close()

    async def test_a_host_that_is_not_there_is_named_and_its_job_kept(self):
        async with session_with() as (session, _, purse):
            gone = purse.host
            purse.host = Host("http://127.0.0.1:1/", gone.public)
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1/v1/ws"):
                await told(session)
            with pytest.raises(Unreachable):
                await told(session)
            assert len(purse.opened) == 1


class TestBreaker:
    async def test_two_failures_in_a_row_and_the_node_rests(self):
        async with session_with(rest=0.3) as (session, node, _):
            node.play(Scene(wrong="cut"), Scene(wrong="flip", pause=0.01))
            await told(session)
            await told(session)
            with pytest.raises(Overloaded, match="left alone"):
                await told(session)
            assert len(node.heard) == 2
            await asyncio.sleep(0.35)
            await works(session)

    async def test_a_success_in_between_is_a_new_beginning(self):
        async with session_with() as (session, node, _):
            for _ in range(3):
                node.play(Scene(wrong="cut"))
                await told(session)
                await works(session)


class TestShutdown:
    async def test_stopping_twice_is_stopping_once(self):
        async with session_with(waits=Waits(grace=30)) as (session, _, purse):
            await works(session)
            await session.close()
            await asyncio.wait_for(session.close(), 1)
            assert len(purse.closed) == 1

    async def test_what_is_under_way_ends_and_what_waits_is_refused(self):
        async with session_with() as (session, node, purse):
            node.play(Scene(tuple("abcdefgh"), pause=0.05))
            running_one = asyncio.create_task(told(session))
            await asyncio.sleep(0.12)
            waiting_one = asyncio.create_task(told(session))
            await asyncio.sleep(0)
            await asyncio.wait_for(session.close(), 2)
            assert (await running_one).problem is not None
            with pytest.raises(Aborted):
                await waiting_one
            with pytest.raises(Aborted):
                await told(session)
            assert purse.closed == purse.opened

    async def test_an_answer_that_nobody_reads_does_not_hold_the_stop(self):
        async with session_with() as (session, node, _):
            node.play(Scene(tuple("abcdefgh"), pause=0.01))
            async with aclosing(session.answer(prompt())) as batches:
                await anext(batches)
                await asyncio.wait_for(session.close(), 2)

    async def test_nothing_is_left_running(self):
        before = asyncio.all_tasks()
        async with session_with() as (session, node, _):
            node.play(Scene(wrong="silence"))
            task = asyncio.create_task(told(session))
            await asyncio.sleep(0.05)
            task.cancel()
        await asyncio.sleep(0.05)
        assert asyncio.all_tasks() - {task} == before


@pytest.mark.parametrize(
    ("url", "socket"),
    [
        ("http://h:1", "ws://h:1/v1/ws"),
        ("https://h/", "wss://h/v1/ws"),
        ("https://h//", "wss://h/v1/ws"),
        ("ws://h/other", "ws://h/other"),
        ("wss://h/", "wss://h"),
    ],
)
def test_the_address_of_a_socket_has_no_slash_too_many(url, socket):
    assert socket_url(Host(url, b"")) == socket


async def test_no_secret_is_logged_sent_or_shown(caplog):
    """After a run with every kind of failure, nobody has seen a key."""
    caplog.set_level(logging.DEBUG)
    shown = []
    async with session_with(failures=99) as (session, node, purse):
        scenes = [Scene(wrong=wrong, pause=0.01) for wrong, _ in BROKEN]
        node.play(*scenes, Scene(wrong="other_key"), Scene(wrong="restart"), Scene())
        for _ in range(len(scenes) + 2):
            message = await told(session)
            shown += [repr(message), str(message.problem)]
        node.init_scenes.append({"error": "no"})
        with pytest.raises(Rejected) as caught:
            await told(session)
        shown += [
            repr(caught.value),
            repr(vars(session)),
            repr(vars(session._line)),
            repr(purse.opened),
        ]
        secrets = [init["inside"]["sessionKey"] for init in node.inits]
        frames = "\n".join([*node.sent, *(json.dumps(i["outside"]) for i in node.inits)])
    everything = "\n".join([*shown, *(record.getMessage() for record in caplog.records)])
    for secret in [*secrets, WALLET.reveal().hex(), HOST.reveal().hex()]:
        assert secret not in everything
        assert secret not in frames
        assert repr(bytes.fromhex(secret)) not in everything
