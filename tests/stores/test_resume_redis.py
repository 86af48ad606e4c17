"""Kept answers on Redis: two gateway processes that share nothing else."""

import os
import signal
import time

from tests.operating import config_for, is_gone
from tests.operating import until as until_in_thread
from tests.peers import model_server
from tests.processes import gateway_process
from tests.resuming import APIS, Asker, PacedModel
from tests.waiting import until

from toolbridge.store.presence import LEASE


async def test_answers_are_attached_to_and_continued_on_another_gateway(tmp_path, redis_url):
    model = PacedModel()
    async with model_server(model) as server:
        config = config_for(server, f'store = "{redis_url}"')
        async with (
            gateway_process(tmp_path / "one", config) as one,
            gateway_process(tmp_path / "two", config) as two,
        ):
            await model.allow(6)
            begun = {
                api: Asker(one.url, api, stream=True, idempotency_key=api, x_toolbridge_resume="60")
                for api in APIS
            }
            await until(lambda: all(b"word4" in asker.so_far for asker in begun.values()))
            again = {
                api: Asker(two.url, api, stream=True, idempotency_key=api, x_toolbridge_resume="60")
                for api in APIS
            }
            await until(lambda: all(b"word4" in asker.so_far for asker in again.values()))
            ids = {api: a.client.reply.headers["x-toolbridge-answer"] for api, a in begun.items()}
            assert model.requests == len(APIS)
            os.kill(one.pid, signal.SIGKILL)
            await until_in_thread(lambda: is_gone(one.pid))
            for api, asker in again.items():
                attached = await asker.reply()
                start = time.monotonic()
                last = f"{ids[api]}:0"
                found = await Asker(two.url, api, stream=True, last_event_id=last).reply()
                assert time.monotonic() - start < LEASE / 2
                assert (found.ended, attached.ended) == ("cut", "cut")
                assert found.body == attached.body
                assert found.body.startswith((await begun[api].reply()).body)
                assert b"the answer is incomplete" in found.body
            await model.allow()
            for api in APIS:
                whole = await Asker(two.url, api, stream=True, idempotency_key=f"{api} 2").reply()
                repeat = await Asker(two.url, api, stream=True, idempotency_key=f"{api} 2").reply()
                assert (whole.ended, repeat.body) == ("clean", whole.body)
