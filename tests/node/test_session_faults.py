"""A node that breaks: what is told, what is mended, and that the next request works."""

import asyncio
import json
import logging
import time

import pytest
from tests.node.server import HOST, Scene, running
from tests.node.sessions import (
    LOCAL,
    PATIENT,
    QUICK,
    TEXT,
    WALLET,
    prompt,
    session_with,
    told,
    works,
)
from tests.waiting import until

from toolbridge.core.errors import (
    Aborted,
    Overloaded,
    Rejected,
    TimedOut,
    Unreachable,
)
from toolbridge.node.funding.jobs import FundingUnresolved, Host, Job, PrepaidJob
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.session.connection import Timeouts
from toolbridge.node.session.session import NodeSession, SessionSettings

BROKEN = [
    ("cut", "truncated"),
    ("close", "truncated"),
    ("drop", "broken_wire"),
    ("swap", "broken_wire"),
    ("replay", "broken_wire"),
    ("flip", "broken_wire"),
    ("garbage", "broken_wire"),
    ("stall", "timed_out"),
    ("engine", "rejected"),
]


class TestFaults:
    @pytest.mark.parametrize(("wrong", "kind"), BROKEN)
    async def test_a_fault_in_the_answer_is_told_and_the_next_request_works(self, wrong, kind):
        async with session_with(waits=QUICK if wrong == "stall" else PATIENT) as (session, node, _):
            node.play(Scene(wrong=wrong, pause=0.01))
            message = await asyncio.wait_for(told(session), 20)
            assert message.problem.kind == kind
            assert TEXT.startswith(message.text) or wrong == "engine"
            await works(session)

    @pytest.mark.parametrize("wrong", ["drop", "swap", "replay", "flip", "engine", "stall"])
    async def test_a_fault_of_the_answer_costs_no_new_session(self, wrong):
        waits = QUICK if wrong == "stall" else PATIENT
        async with session_with(waits=waits) as (session, node, funding):
            node.play(Scene(wrong=wrong, pause=0.01))
            await told(session)
            await works(session)
            assert len(funding.opened) == 1

    async def test_an_answer_under_another_key_is_refused(self):
        async with session_with() as (session, node, _):
            node.play(Scene(wrong="other_key", pause=0.01))
            message = await told(session)
            assert (message.problem.kind, message.text) == ("broken_wire", "")
            await works(session)

    async def test_a_node_that_never_begins_is_waited_for_once(self):
        async with session_with(waits=QUICK) as (session, node, funding):
            node.play(Scene(wrong="silence"))
            before = time.monotonic()
            message = await told(session)
            assert QUICK.first <= time.monotonic() - before < QUICK.first + 20
            assert message.problem.kind == "timed_out"
            await works(session)
            assert len(funding.opened) == 1

    async def test_a_slow_answer_may_take_longer_than_any_one_wait(self):
        waits = Timeouts(first=1, next=1, grace=0.2)
        async with session_with(waits=waits) as (session, node, _):
            node.play(Scene(tuple("abcdefgh"), pause=0.16))
            assert (await told(session)).text == "abcdefgh"

    async def test_a_node_that_is_silent_even_when_stopped_is_hung_up_on(self):
        async with session_with(waits=QUICK) as (session, node, funding):
            node.play(Scene(wrong="silence", deaf=True))
            assert (await told(session)).problem.kind == "timed_out"
            await works(session)
            assert len(funding.opened) == 2

    async def test_greetings_do_not_keep_a_stalled_answer_alive(self):
        async with session_with(waits=QUICK) as (session, node, _):
            node.play(Scene(wrong="stall", pause=0.01))

            async def chatter():
                while True:
                    for socket in list(node.sockets):
                        await socket.send('{"type":"connected"}')
                    await asyncio.sleep(0.05)

            task = asyncio.create_task(chatter())
            message = await asyncio.wait_for(told(session), 20)
            task.cancel()
            assert message.problem.kind == "timed_out"

    async def test_an_answer_whose_text_is_whole_survives_the_end_of_its_connection(self):
        async with session_with() as (session, node, funding):
            node.play(Scene(wrong="cut_at_end"))
            await works(session)
            assert len(node.heard) == 1
            await works(session)
            assert len(funding.opened) == 2

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
        async with session_with() as (session, node, funding):
            node.play(Scene(fault=fault, fault_ends=ends))
            assert (await told(session)).problem.kind == kind
            await works(session)
            assert len(funding.opened) == 1

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
        async with session_with(memory="keep") as (session, node, funding):
            await works(session)
            node.forget()
            await works(session)
            assert len(node.inits) == 2
            assert (len(funding.opened), node.connections) == (1, 1)

    async def test_a_key_that_is_forgotten_again_and_again_is_an_error(self):
        async with session_with() as (session, node, funding):
            node.play(Scene(wrong="restart"), Scene(wrong="restart"))
            with pytest.raises(Rejected, match="SESSION_KEY_NOT_FOUND"):
                await told(session)
            assert len(funding.opened) == 1
            await works(session)

    @pytest.mark.req("CB-17")
    @pytest.mark.parametrize("code", ["SESSION_NOT_FOUND", "SESSION_NOT_ACTIVE"])
    async def test_a_session_that_is_over_is_dropped_and_asked_for_again_once(self, code):
        async with session_with() as (session, node, funding):
            node.play(Scene(fault={"code": code, "message": "gone"}))
            await works(session)
            assert len(funding.opened) == 2
            node.play(*(Scene(fault={"code": code, "message": "gone"}) for _ in range(2)))
            with pytest.raises(Rejected, match="gone"):
                await told(session)

    async def test_a_forgotten_key_on_a_job_that_is_over_needs_a_new_job(self):
        async with session_with() as (session, node, funding):
            node.play(Scene(wrong="restart"))
            funding.over.add("101")
            await works(session)
            assert [job.id for job in funding.opened] == ["101", "102"]

    async def test_a_connection_that_went_in_silence_takes_its_job_with_it(self):
        async with session_with() as (session, node, funding):
            await works(session)
            node.restart()
            await until(lambda: not node.sockets)
            await works(session)
            assert [job.id for job in funding.opened] == ["101", "102"]
            assert [job.id for job in funding.closed] == ["101"]

    async def test_a_cut_before_the_first_word_is_mended_once(self):
        async with session_with() as (session, node, funding):
            node.play(Scene(wrong="cut", at=0))
            await works(session)
            assert len(funding.opened) == 2
            node.play(Scene(wrong="cut", at=0), Scene(wrong="cut", at=0))
            with pytest.raises(Unreachable):
                await told(session)
            assert len(funding.opened) == 3

    async def test_a_cut_after_the_first_word_is_not_asked_again(self):
        async with session_with() as (session, node, _):
            node.play(Scene(wrong="cut"))
            assert (await told(session)).problem.kind == "truncated"
            assert len(node.heard) == 1

    async def test_an_unresolved_payment_is_never_followed_by_another(self):
        async with session_with() as (session, _, funding):
            funding.error = FundingUnresolved("sent, but nobody knows what became of it")
            with pytest.raises(FundingUnresolved):
                await told(session)
            with pytest.raises(FundingUnresolved):
                await told(session)
            assert funding.opened == []
            funding.error = None  # the purse has found out
            await works(session)
            assert len(funding.opened) == 1

    async def test_a_client_that_leaves_in_mid_payment_leaves_the_job_to_the_next(self):
        async with session_with() as (session, node, funding):
            funding.paid.clear()
            task = asyncio.create_task(told(session))
            await until(lambda: funding.asked)
            task.cancel()
            funding.paid.set()
            await works(session)
            assert [job.id for job in funding.opened] == ["101"]
            assert len(node.heard) == 1

    async def test_a_payment_that_is_under_way_at_the_stop_is_given_back(self):
        async with session_with() as (session, _, funding):
            funding.paid.clear()
            task = asyncio.create_task(told(session))
            await until(lambda: funding.asked)
            task.cancel()
            await asyncio.sleep(0)
            funding.paid.set()
            await session.close()
            assert len(funding.opened) == 1
            assert funding.closed == funding.opened

    async def test_a_payment_that_fails_may_be_tried_again(self):
        async with session_with() as (session, _, funding):
            funding.error = Rejected("no money")
            with pytest.raises(Rejected, match="no money"):
                await told(session)
            funding.error = None
            await works(session)

    async def test_a_deposit_that_is_nearly_used_up_is_followed_by_a_new_one(self):
        async with session_with(job={"max_tokens": 10}) as (session, node, funding):
            asked = prompt(max_tokens=4)
            for _ in range(4):
                assert (await told(session, asked)).stop == "end"
        jobs = [heard.session_id.partition("-")[0] for heard in node.heard]
        assert jobs == ["101", "101", "101", "102"]
        assert len(funding.opened) == 2

    async def test_no_more_is_asked_for_than_the_deposit_pays(self):
        async with session_with(job={"max_tokens": 10}) as (session, node, _):
            await told(session, prompt(max_tokens=5000))
        assert node.heard[0].prompt["max_tokens"] == 10


class TestHandshakes:
    async def test_a_node_that_does_not_answer_is_given_up(self):
        async with session_with(waits=QUICK) as (session, node, _):
            node.init_scenes.append("silence")
            before = time.monotonic()
            with pytest.raises(TimedOut, match="handshake"):
                await told(session)
            assert time.monotonic() - before < QUICK.init + 20
            await works(session)

    @pytest.mark.parametrize(
        "fault",
        [
            {"code": "SESSION_AUTH_DENIED"},
            {"error": "no"},
            {"type": "session_init_ack", "status": "failed"},
        ],
    )
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
            host = Host(node.url, encryption.public_key(Secret.from_hex("99" * 32)))
            session = NodeSession(
                PrepaidJob(Job("1", host, "m")), WALLET, SessionSettings(QUICK, access=LOCAL)
            )
            with pytest.raises(Rejected, match="DECRYPTION_FAILED"):
                await told(session)
            await session.close()

    async def test_a_host_that_is_not_there_is_named_and_its_job_kept(self):
        async with session_with() as (session, _, funding):
            gone = funding.host
            funding.host = Host("http://127.0.0.1:1/", gone.public)
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1/v1/ws"):
                await told(session)
            with pytest.raises(Unreachable):
                await told(session)
            assert len(funding.opened) == 1

    async def test_a_host_that_is_not_there_is_left_for_another(self):
        async with session_with() as (session, _, funding):
            funding.others, funding.host = [funding.host], Host("http://127.0.0.1:1", b"")
            await works(session)
            assert funding.closed == funding.opened[:1]
            assert len(funding.opened) == 2

    async def test_a_job_that_ended_before_its_host_was_reached_is_not_used(self):
        async with session_with() as (session, _, funding):
            host, funding.host = funding.host, Host("http://127.0.0.1:1", b"")
            with pytest.raises(Unreachable):
                await told(session)
            funding.host = host
            funding.over.add("101")
            await works(session)
            assert [job.id for job in funding.opened] == ["101", "102"]

    async def test_a_host_that_accepts_and_says_nothing_is_given_up(self):
        async def ignore(reader, writer):
            await reader.read()
            writer.close()

        async with await asyncio.start_server(ignore, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            job = Job("1", Host(url, encryption.public_key(HOST)), "m")
            session = NodeSession(
                PrepaidJob(job), WALLET, SessionSettings(Timeouts(connect=0.1), access=LOCAL)
            )
            with pytest.raises(Unreachable, match=r"did not accept a connection within 0\.1 s"):
                await asyncio.wait_for(told(session), 20)
            await session.close()

    async def test_a_stop_while_connecting_leaves_no_connection(self):
        async with session_with() as (session, node, funding):
            funding.paid.clear()
            task = asyncio.create_task(told(session))
            await until(lambda: funding.asked)
            closing = asyncio.create_task(session.close())
            await asyncio.sleep(0)
            funding.paid.set()
            await closing
            with pytest.raises(Aborted):
                await task
            await until(lambda: not node.sockets)
            assert node.heard == []


class TestBreaker:
    async def test_two_failures_in_a_row_and_the_node_rests(self):
        async with session_with(rest=1.5) as (session, node, _):
            node.play(Scene(wrong="cut"), Scene(wrong="flip", pause=0.01))
            await told(session)
            await told(session)
            with pytest.raises(Overloaded, match="gets no requests"):
                await told(session)
            assert len(node.heard) == 2
            await asyncio.sleep(1.6)
            await works(session)

    async def test_a_host_that_fails_twice_is_left_for_another(self):
        async with running() as other, session_with(rest=30) as (session, node, funding):
            node.play(Scene(wrong="engine"), Scene(wrong="flip"), Scene(wrong="flip"))
            funding.others = [Host(other.url, encryption.public_key(HOST))]
            for _ in range(3):
                await told(session)
            await works(session)
            assert len(other.heard) == 1
            assert funding.closed == funding.opened[:1]
            await works(session)

    async def test_a_host_without_another_rests(self):
        async with session_with(rest=30) as (session, node, funding):
            node.play(Scene(wrong="flip"), Scene(wrong="flip"))
            for _ in range(2):
                await told(session)

            async def unreachable(_):
                raise Unreachable("the chain is away")

            funding.has_other = unreachable
            with pytest.raises(Overloaded, match="gets no requests"):
                await told(session)

    async def test_a_success_in_between_is_a_new_beginning(self):
        async with session_with() as (session, node, _):
            for _ in range(3):
                node.play(Scene(wrong="cut"))
                await told(session)
                await works(session)


async def test_no_secret_is_logged_sent_or_shown(caplog):
    """After a run with every kind of failure, nobody has seen a key."""
    caplog.set_level(logging.DEBUG)
    shown = []
    async with session_with(waits=QUICK, failures=99) as (session, node, funding):
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
            repr(vars(session._connection)),
            repr(funding.opened),
        ]
        secrets = [init["inside"]["sessionKey"] for init in node.inits]
        frames = "\n".join([*node.sent, *(json.dumps(i["outside"]) for i in node.inits)])
    everything = "\n".join([*shown, *(record.getMessage() for record in caplog.records)])
    for secret in [*secrets, WALLET.reveal().hex(), HOST.reveal().hex()]:
        assert secret not in everything
        assert secret not in frames
        assert repr(bytes.fromhex(secret)) not in everything
