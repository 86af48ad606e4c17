"""Requests are freed with their answers: none waits for the garbage collector, which runs rarely."""

import asyncio
import gc

import pytest
from tests.resuming import APIS, Asker, paced
from tests.waiting import until


def found_by_collector() -> set[str]:
    """Return the classes of toolbridge whose instances only the garbage collector can free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        kinds = {type(one) for one in gc.garbage}
        names = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    return {
        name
        for name in names
        if name.startswith("toolbridge.") and not name.startswith("toolbridge.conformance.")
    }


@pytest.mark.parametrize("way", ["stream", "whole", "left", "rejected"])
@pytest.mark.parametrize("api", APIS)
async def test_a_request_is_freed_with_its_answer(api, way):
    async with paced() as (url, model):
        await model.allow()
        warm = Asker(url, api, stream=way != "whole")  # what is made once may be freed later
        await warm.reply()
        gc.collect()
        gc.disable()
        try:
            if way == "left":
                await model.allow(3)
            if way == "rejected":
                model.status = 400
            asker = Asker(url, api, stream=way != "whole", text="x" * 10_000)
            if way == "left":
                await until(lambda: b"word1" in asker.so_far)
                await asker.leave()
                await until(lambda: model.left == 1)
            else:
                await asker.reply()
            await asyncio.sleep(0.1)  # tasks end after the last byte
            assert found_by_collector() == set()
        finally:
            gc.enable()
