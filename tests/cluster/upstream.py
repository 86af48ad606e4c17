"""The model server of the cluster: it counts what it gets, and fails as it is told."""

import asyncio
import json
import re
from collections import Counter

from tests.peers import Heard, Line
from tests.peers import whole as reply_whole
from tests.streams import chunk

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
FAULTS = {7: 500, 13: 429, 17: "reset", 19: "slow"}
"""Marks whose remainder by 23 has a fault."""


class CountingUpstream:
    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()

    async def __call__(self, heard: Heard, line: Line) -> None:
        mark = re.search(r"mark (\d+)", str(heard.json["messages"]))[1]
        self.seen[mark] += 1
        fault = FAULTS.get(int(mark) % 23)
        if isinstance(fault, int):
            await reply_whole(line, {"error": {"message": "no"}}, fault)
            return
        await line.head(kind="text/event-stream")
        await line.send(chunk({"content": f"answer {mark} "}))
        if fault == "reset":
            line.cut()
            return
        await asyncio.sleep(0.3 if fault == "slow" else 0.01)
        await line.send(chunk({"content": "end"}) + chunk({}, "stop"))
        await line.send(f'data: {{"id":"c","choices":[],"usage":{json.dumps(USAGE)}}}\n\n')
        await line.send("data: [DONE]\n\n")
        await line.end()
        self.answered[mark] += 1
