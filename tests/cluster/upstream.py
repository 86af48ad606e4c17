"""The model server of the cluster: it counts what it gets, and fails as it is told."""

import asyncio
import json
import re
from collections import Counter

from tests.peers import Heard, Line
from tests.peers import whole as reply_whole
from tests.streams import chunk

PROMPT_TOKENS, OUTPUT_TOKENS = 100, 10
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
FAULTS = {7: 500, 13: 429, 17: "reset", 19: "slow"}
"""Plain requests whose mark has this remainder by 23 have a fault."""
PIECES = 10
"""Pieces of an answer that is resumed."""


def kind_of(mark: int) -> str:
    """Return what a client does: most send a request once; others repeat it, or resume the answer."""
    return {3: "keyed", 4: "resumed"}.get(mark % 5, "plain")


def text_of(mark: int) -> str:
    """Return the text of the answer."""
    if kind_of(mark) == "resumed":
        return f"answer {mark} " + "".join(f"piece {n} " for n in range(PIECES)) + "end"
    return f"answer {mark} end"


class CountingUpstream:
    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    async def __call__(self, heard: Heard, line: Line) -> None:
        mark = int(re.search(r"mark (\d+)", str(heard.json["messages"]))[1])
        self.seen[mark] += 1
        kind = kind_of(mark)
        fault = FAULTS.get(mark % 23) if kind == "plain" else None
        if isinstance(fault, int):
            await reply_whole(line, {"error": {"message": "no"}}, fault)
            return
        await line.head(kind="text/event-stream")
        await line.send(chunk({"content": f"answer {mark} "}))
        if fault == "reset":
            line.cut()
            return
        for n in range(PIECES if kind == "resumed" else 0):
            await asyncio.sleep(0.03)
            await line.send(chunk({"content": f"piece {n} "}))
        await asyncio.sleep(0.3 if fault == "slow" else 0.01)
        await line.send(chunk({"content": "end"}) + chunk({}, "stop"))
        await line.send(f'data: {{"id":"c","choices":[],"usage":{json.dumps(USAGE)}}}\n\n')
        await line.send("data: [DONE]\n\n")
        await line.end()
