"""A host that lies, floods and hangs up, over a socket: what is counted, cut and remembered."""

import asyncio
import logging
import math

import pytest
from tests.node.server import HOST, Scene
from tests.node.sessions import PATIENT, QUICK, TEXT, prompt, session_with, told, works
from tests.waiting import until

from toolbridge.core.usage import Usage
from toolbridge.node.chain.address import address_of
from toolbridge.node.hosts.records import FILE, HostRecords
from toolbridge.node.protocol import encryption
from toolbridge.node.session.connection import Timeouts
from toolbridge.node.session.exchange import MAX_INCOMING

ADDRESS = address_of(encryption.public_key(HOST))
LIES = [10**9, 1e9, 10**30, 1e30, -50, math.nan, math.inf, "12", 2.5, True, [3]]


class TestOverclaiming:
    @pytest.mark.parametrize("claim", LIES, ids=str)
    @pytest.mark.parametrize("where", ["chunk", "used", "completion"])
    async def test_the_answer_is_delivered_with_our_count_and_the_host_is_left(
        self, claim, where, tmp_path, caplog
    ):
        records = HostRecords(tmp_path / FILE, 84532)
        async with session_with(records=records) as (session, node, funding):
            node.play(Scene(claims={where: claim}))
            with caplog.at_level(logging.WARNING, "toolbridge.node"):
                message = await told(session)
                await until(lambda: funding.closed)
            assert (message.text, message.stop) == (TEXT, "end")
            assert message.usage == Usage(input=11, output=3)
            assert ["an answer of 3 tokens by our count" in str(one) for one in message.losses] == [
                True
            ]
            assert [(one.kind, one.host) for one in await records.faults()] == [
                ("overclaim", ADDRESS.lower())
            ]
            assert len([one for one in caplog.records if "overclaim" in one.message]) == 1
            await until(lambda: node.closed)
            assert node.closed == [1000]
            assert funding.tokens == {"101": 3}  # only what was delivered is charged

    async def test_a_claim_of_nothing_for_a_long_answer_is_a_lie_too(self, tmp_path):
        records = HostRecords(tmp_path / FILE, 84532)
        async with session_with(records=records) as (session, node, funding):
            node.play(Scene(("word ",) * 200, claims={"completion": 0, "used": 0, "chunk": 0}))
            message = await told(session, prompt(max_tokens=300))
            assert message.usage.output == 200
            await until(lambda: funding.closed)

    async def test_a_host_that_cannot_count_its_trailer_ends_a_sealed_answer_all_the_same(self):
        async with session_with() as (session, node, funding):
            node.play(Scene(ends=False))
            reading = asyncio.create_task(told(session))
            await until(lambda: any("encrypted_response" in one for one in node.sent))
            for socket in list(node.sockets):
                await socket.send('{"type":"stream_end", no json')
            message = await reading
            assert (message.text, message.stop, message.usage.output) == (TEXT, "end", 3)
            await until(lambda: funding.closed)

    async def test_only_what_was_delivered_is_charged_to_the_deposit(self):
        async with session_with(job={"max_tokens": 1000}) as (session, node, funding):
            node.play(Scene(claims={"completion": 20}))
            await told(session)
            assert session._connection.used == 20  # credible: the host may count more than we see
            node.play(Scene(claims={"completion": 900}))
            await told(session)
            await until(lambda: funding.closed)

    async def test_the_next_request_goes_to_another_host(self):
        from tests.node.server import running

        from toolbridge.node.funding.jobs import Host

        async with running() as honest, session_with() as (session, node, funding):
            funding.others = [Host(honest.url, encryption.public_key(HOST))]
            node.play(Scene(claims={"used": 10**9}))
            await told(session)
            await works(session)
            assert (len(node.heard), len(honest.heard)) == (1, 1)

    async def test_without_another_host_it_gets_no_requests_for_a_while(self):
        from toolbridge.core.errors import Overloaded

        async with session_with() as (session, node, funding):
            node.play(Scene(claims={"used": 10**9}))
            await told(session)
            await until(lambda: funding.closed)
            with pytest.raises(Overloaded, match="no requests for another"):
                await told(session)
            assert len(node.heard) == 1


class TestTooMuch:
    @pytest.mark.parametrize("deaf", [False, True])
    async def test_24_mib_do_not_come_through_50_tokens(self, deaf, tmp_path):
        records = HostRecords(tmp_path / FILE, 84532)
        async with session_with(records=records) as (session, node, _):
            pieces = ("x" * 2**19,) * 48
            node.play(Scene(pieces, obeys_limit=False, deaf=deaf))
            message = await told(session, prompt(max_tokens=50))
            assert message.stop == "length"
            assert len(message.text) <= 200
            await until(lambda: session.waiting == 0 and not session._queue.locked(), 20)
            assert sum(map(len, node.sent)) < 16 * 2**20
            assert [one.kind for one in await records.faults()] == ["overrun"]
            assert session._connection is None or session._connection.alive is not deaf

    async def test_a_message_of_24_mib_is_not_read(self):
        async with session_with() as (session, node, _):
            node.play(Scene(("x" * 24 * 2**20,), obeys_limit=False))
            message = await told(session, prompt(max_tokens=50))
            assert message.problem.kind == "broken_wire"
            assert "sent a message of more than 8 MiB" in message.problem.text
            await works(session)

    async def test_messages_about_nothing_are_counted_too(self):
        async with session_with() as (session, node, _):
            node.play(Scene(wrong="silence"))
            reading = asyncio.create_task(told(session))
            await until(lambda: node.heard)
            (socket,) = node.sockets
            noise = '{"type":"novelty","x":"' + "y" * 2**20 + '"}'
            for _ in range(2 * MAX_INCOMING >> 20):
                try:
                    await socket.send(noise)
                except Exception:
                    break
            message = await asyncio.wait_for(reading, 20)
            assert message.problem.kind == "broken_wire"
            assert "for an answer of at most 50 tokens" in message.problem.text
            await works(session)

    async def test_an_answer_that_drips_ends_with_its_total_time(self):
        waits = Timeouts(first=30, next=30, grace=0.2, total=0.5)
        async with session_with(waits=waits) as (session, node, _):
            node.play(Scene(("drip ",) * 10_000, pause=0.02))
            message = await told(session, prompt(max_tokens=10_000))
            assert message.problem.kind == "timed_out"
            assert "took longer than 0.5 s" in message.problem.text
            await until(lambda: node.cancelled)

    async def test_empty_chunks_without_end_are_cut(self):
        async with session_with() as (session, node, _):
            node.play(Scene(("",) * 10_000, obeys_limit=False))
            message = await told(session, prompt(max_tokens=50))
            assert (message.stop, message.text) == ("length", "")
            await until(lambda: node.cancelled)


class TestTheEnd:
    @pytest.mark.parametrize("ends", [True, False])
    @pytest.mark.parametrize("what", [{"responds": False}, {"final": False, "responds": False}])
    async def test_an_end_without_a_seal_is_a_truncation(self, what, ends, tmp_path):
        records = HostRecords(tmp_path / FILE, 84532)
        waits = PATIENT if ends else QUICK
        async with session_with(records=records, waits=waits) as (session, node, _):
            node.play(Scene(ends=ends, **what))
            message = await told(session)
            assert message.problem.kind in {"truncated", "timed_out"}
            assert message.text == TEXT
            await works(session)
            kinds = [one.kind for one in await records.faults()]
            assert kinds == (["unsealed"] if what.get("final", True) else [])

    async def test_old_nodes_are_accepted_by_a_setting_and_reported(self, caplog, tmp_path):
        records = HostRecords(tmp_path / FILE, 84532)
        async with session_with(old_nodes=True, records=records) as (session, node, _):
            node.play(Scene(responds=False))
            with caplog.at_level(logging.WARNING, "toolbridge.node"):
                message = await told(session)
            assert len([one for one in caplog.records if "old_nodes" in one.message]) == 1
            assert await records.faults() == []
            assert (message.text, message.stop) == (TEXT, "end")
            assert ["did not confirm" in str(one) for one in message.losses] == [True]


class TestHangingUp:
    async def test_three_times_in_a_day_exclude_a_host_also_after_a_restart(self, tmp_path):
        now = [1_000_000.0]
        records = HostRecords(tmp_path / FILE, 84532, clock=lambda: now[0])
        async with session_with(records=records, failures=9) as (session, node, _):
            for number in range(3):
                assert await records.excluded() == {}, number
                node.play(Scene(wrong="cut", pause=0.01))
                assert (await told(session)).problem.kind == "truncated"
                await until(lambda: not session._queue.locked())
        later = HostRecords(tmp_path / FILE, 84532, clock=lambda: now[0])
        why = (await later.excluded())[ADDRESS.lower()]
        assert "dropped the connection during an answer" in why
        assert "UTC" in why
        now[0] += 86_401
        assert await later.excluded() == {}

    async def test_a_host_that_hangs_up_before_the_first_word_is_remembered(self, tmp_path):
        records = HostRecords(tmp_path / FILE, 84532)
        async with session_with(records=records) as (session, node, _):
            node.play(Scene(wrong="cut", at=0))
            await works(session)
        assert [one.kind for one in await records.faults()] == ["hangup"]

    async def test_a_connection_that_ends_between_two_requests_is_no_fault(self, tmp_path):
        records = HostRecords(tmp_path / FILE, 84532)
        async with session_with(records=records) as (session, node, _):
            await works(session)
            node.restart()
            await works(session)
        assert await records.faults() == []


class TestRecords:
    async def test_the_file_is_the_users_own(self, tmp_path):
        records = HostRecords(tmp_path / "new" / FILE, 1)
        await records.note(ADDRESS, "overclaim", "claimed much")
        assert (tmp_path / "new" / FILE).stat().st_mode & 0o777 == 0o600

    async def test_an_overclaim_counts_for_thirty_days_on_its_chain(self, tmp_path):
        now = [0.0]
        records = HostRecords(tmp_path / FILE, 1, clock=lambda: now[0])
        await records.note(ADDRESS, "overclaim", "claimed much")
        assert list(await records.excluded()) == [ADDRESS.lower()]
        assert await HostRecords(tmp_path / FILE, 2, clock=lambda: now[0]).excluded() == {}
        now[0] = 30 * 86_400 + 1
        assert await records.excluded() == {}
        await records.note(ADDRESS, "hangup", "gone")
        assert [one.kind for one in await records.faults()] == ["hangup"]  # the old one is deleted

    async def test_a_host_can_be_forgotten(self, tmp_path):
        records = HostRecords(tmp_path / FILE, 1)
        await records.note(ADDRESS, "overclaim", "claimed much")
        assert await records.forget(ADDRESS.upper().replace("0X", "0x")) == 1
        assert await records.excluded() == {}

    @pytest.mark.parametrize("path", [None, "/proc/nowhere/x"])
    async def test_without_a_file_faults_count_while_the_process_runs(self, path):
        from pathlib import Path

        records = HostRecords(Path(path) if path else None, 1)
        await records.note(ADDRESS, "overclaim", "claimed much")
        assert list(await records.excluded()) == [ADDRESS.lower()]
        assert await records.forget(ADDRESS) == 1
