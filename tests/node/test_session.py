"""Sessions against a node that follows the facts, and breaks them when told to."""

import asyncio
import logging

import pytest
from tests.node.server import Scene, running
from tests.node.sessions import (
    LOCAL,
    PATIENT,
    TEXT,
    WALLET,
    CountingFunding,
    prompt,
    reading,
    session_with,
    told,
    works,
)
from tests.tables import every_row
from tests.waiting import until

from toolbridge.core import events as ev
from toolbridge.core.errors import (
    Aborted,
    TooLarge,
)
from toolbridge.core.usage import Usage
from toolbridge.node.funding.jobs import Host
from toolbridge.node.hosts.records import HostRecords
from toolbridge.node.protocol import encryption
from toolbridge.node.session import connection as line_module
from toolbridge.node.session.connection import Timeouts, socket_url
from toolbridge.node.session.pool import NodePool
from toolbridge.node.session.session import NodeSession, SessionSettings


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
        async with session_with() as (session, node, funding):
            assert not funding.opened
            for _ in range(3):
                await works(session)
            assert (len(funding.opened), node.connections) == (1, 1)
            await session.close()
            assert funding.closed == funding.opened
            await until(lambda: node.closed == [1000])

    @pytest.mark.req("CB-20")
    async def test_the_wallet_signs_and_checkpoints_are_sealed_to_it(self):
        async with session_with() as (session, node, _):
            await works(session)
        inside = node.inits[0]["inside"]
        assert inside["jobId"] == "101"
        assert inside["recoveryPublicKey"] == "0x" + encryption.public_key(WALLET).hex()

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
        async with session_with(waits=Timeouts(grace=0.2)) as (session, node, _):
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
        async with session_with() as (session, *_), reading(session.answer(prompt())) as slow:
            async for batch in slow:
                if isinstance(batch[-1], ev.Finished):
                    break
            await asyncio.wait_for(works(session), 20)

    async def test_several_sessions_run_side_by_side(self):
        async with running() as node:
            funding = CountingFunding(node)
            pool = NodePool(
                lambda: NodeSession(funding, WALLET, SessionSettings(PATIENT, access=LOCAL)), 2
            )
            node.play(*(Scene(pause=0.02) for _ in range(3)))
            messages = await asyncio.gather(*(told(pool) for _ in range(3)))
            await pool.close()
        assert [m.text for m in messages] == [TEXT] * 3
        assert node.most_at_once == 2
        assert len(funding.opened) == len(funding.closed) == 2

    async def test_a_pool_opens_no_more_than_is_needed(self):
        async with running() as node:
            funding = CountingFunding(node)
            pool = NodePool(
                lambda: NodeSession(funding, WALLET, SessionSettings(PATIENT, access=LOCAL)), 2
            )
            await works(pool)
            await works(pool)
            await pool.close()
        assert len(funding.opened) == 1


class TestStopping:
    async def test_a_client_that_leaves_stops_the_node(self):
        async with session_with() as (session, node, funding):
            node.play(Scene(tuple("abcdefghij"), pause=0.03))
            async with reading(session.answer(prompt())) as batches:
                async for _ in batches:
                    break
            await works(session)
            assert len(node.cancelled) == 1
            assert len(funding.opened) == 1
            assert node.dropped == []

    async def test_a_task_that_is_cancelled_before_the_first_word_stops_the_node(self):
        async with session_with() as (session, node, funding):
            node.play(Scene(wrong="silence"))
            task = asyncio.create_task(told(session))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await works(session)
            assert len(node.cancelled) == 1
            assert len(funding.opened) == 1

    async def test_a_node_that_does_not_stop_is_hung_up_on(self):
        async with session_with() as (session, node, funding):
            node.play(Scene(tuple("abc" * 50), pause=0.5, deaf=True))
            async with reading(session.answer(prompt(max_tokens=200))) as batches:
                async for _ in batches:
                    break
            await asyncio.wait_for(works(session), 20)  # less than the answer takes
            assert len(funding.opened) == 2

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
        patient = Timeouts(first=30, next=30, grace=0.2)
        async with session_with(waits=patient, old_nodes=not responds) as (session, node, funding):
            node.play(Scene(ends=False, responds=responds, counts=False))
            message = await asyncio.wait_for(told(session), 20)
            assert (message.text, message.stop) == (TEXT, "end")
            assert message.usage == Usage(output=3)
            await works(session)
            assert len(funding.opened) == 1

    async def test_an_answer_without_counts_is_counted(self):
        async with session_with() as (session, node, _):
            node.play(Scene(counts=False))
            assert (await told(session)).usage == Usage(output=3)


class TestShutdown:
    async def test_stopping_twice_is_stopping_once(self):
        async with session_with(waits=Timeouts(grace=30)) as (session, _, funding):
            await works(session)
            await session.close()
            await asyncio.wait_for(session.close(), 20)
            assert len(funding.closed) == 1

    async def test_what_is_under_way_ends_and_what_waits_is_refused(self):
        records = HostRecords(None, 1)
        async with session_with(records=records) as (session, node, funding):
            node.play(Scene(tuple("abcdefgh"), pause=0.5))
            running_one = session.answer(prompt())
            assert await running_one.read()
            reading_one = asyncio.create_task(running_one.read())
            waiting_one = asyncio.create_task(told(session))
            await until(lambda: session.waiting == 2)
            await asyncio.wait_for(session.close(), 20)
            assert isinstance((await reading_one)[-1], ev.Failed)
            assert await records.faults() == []  # we closed the connection, not the host
            with pytest.raises(Aborted):
                await waiting_one
            with pytest.raises(Aborted):
                await told(session)
            assert funding.closed == funding.opened

    async def test_an_answer_that_nobody_reads_does_not_hold_the_stop(self):
        async with session_with() as (session, node, _):
            node.play(Scene(tuple("abcdefgh"), pause=0.01))
            async with reading(session.answer(prompt())) as batches:
                await anext(batches)
                await asyncio.wait_for(session.close(), 20)

    async def test_nothing_is_left_running(self):
        before = asyncio.all_tasks()
        async with session_with() as (session, node, _):
            node.play(Scene(wrong="silence"))
            task = asyncio.create_task(told(session))
            await asyncio.sleep(0.05)
            task.cancel()
        await until(lambda: asyncio.all_tasks() - {task} == before)


@every_row(
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
