"""Transcripts of structured streams, replayed over real sockets; see the README beside them."""

import asyncio
import json
import time
from collections import defaultdict
from pathlib import Path

from tests.peers import Heard, Line

from toolbridge.sdk.structured.client import StreamFailed
from toolbridge.structured import events as fe

FOLDER = Path(__file__).parents[2] / "clients" / "typescript" / "transcripts"
RUN = "run_00000000000000ab"
TRANSCRIPTS = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")}


def event_bytes(name: str, data: object, n: int | None) -> bytes:
    id = "" if n is None else f"id: {RUN}:{n}\n"
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\n{id}data: {text}\n\n".encode()


class Replay:
    """A server that plays one transcript, with its breaks, and takes answers and aborts."""

    def __init__(self, transcript: dict) -> None:
        self._transcript = transcript
        self._drops = list(transcript.get("drop_after", ()))
        self.answers: list[dict] = []
        self.resumed: list[str | None] = []
        self.asked: list[Heard] = []
        self._aborted = asyncio.Event()
        self._answered: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._pieces: list[tuple[dict, int, bool, bytes]] = []
        n = 0
        for piece in transcript["pieces"]:
            counted = "event" in piece and piece["event"] != "ping"
            n += counted
            data = (
                piece["bytes"].encode()
                if "bytes" in piece
                else event_bytes(piece["event"], piece["data"], n if counted else None)
            )
            self._pieces.append((piece, n, counted, data))

    async def answer(self, heard: Heard, line: Line) -> None:
        if heard.method == "DELETE" or heard.path.endswith("/results"):
            if heard.method == "DELETE":
                self._aborted.set()
            else:
                self.answers.append(heard.json)
                self._answered[heard.json["id"]].set()
            await line.head(200, "application/json")
            await line.send(b"{}")
            await line.end()
        else:
            await self._stream(heard, line)

    async def _stream(self, heard: Heard, line: Line) -> None:
        last = heard.headers.get("last-event-id")
        if heard.method == "GET":
            self.resumed.append(last)
        else:
            self.asked.append(heard)
        drop = self._drops.pop(0) if self._drops else None
        headers = {"content-type": "text/event-stream", **self._transcript.get("headers", {})}
        kind = headers.pop("content-type")
        status = self._transcript.get("status", 200)
        await line.head(status, kind, x_toolbridge_run=RUN, **headers)
        for piece, data in self._body(int(last.rpartition(":")[2]) if last else 0, drop):
            await self._wait(piece)
            await line.send(data)
        if drop is None or drop.get("clean"):
            await line.end()
        else:
            await asyncio.sleep(0.05)  # the client has to have read what was sent
            line.cut()
            raise ConnectionError

    def _body(self, after: int, drop: dict | None) -> list[tuple[dict, bytes]]:
        rest = [p for p in self._pieces if p[1] > after or (not p[2] and p[1] == after)]
        if drop is None:
            return [(piece, data) for piece, _, _, data in rest]
        whole = [p for p in rest if p[1] <= after + drop["events"]]
        body = [(piece, data) for piece, _, _, data in whole]
        if "bytes" in drop and len(rest) > len(whole):
            broken = rest[len(whole)]
            body.append((broken[0], broken[3][: drop["bytes"]]))
        return body

    async def _wait(self, piece: dict) -> None:
        await asyncio.sleep(piece.get("after_ms", 0) / 1000)
        if "after_answer" in piece:
            await self._answered[piece["after_answer"]].wait()
        if piece.get("after_abort"):
            await self._aborted.wait()


def options_of(transcript: dict) -> tuple[object, dict]:
    """Return the prompt and the options that make the transcript's request."""
    request = dict(transcript["request"])
    prompt = request.pop("prompt", None) or request.pop("messages")
    options = {
        name.removesuffix("_ms"): value / 1000 if name.endswith("_ms") else value
        for name, value in request.items()
    }
    tools = transcript.get("client_tools")
    if tools is not None:

        def on_tool_call(call: fe.RunToolCall) -> object:
            told = tools[call.name]
            time.sleep(min(told.get("after_ms", 0) / 1000, 0.3))
            if "error" in told:
                raise RuntimeError(told["error"])
            return told["result"]

        options["on_tool_call"] = on_tool_call
    return prompt, options


def check(stream, events: list[fe.Event], error: StreamFailed | None, replay: Replay, expected):
    """Hold what came against what the transcript expects."""
    found = stream.found
    actual = {
        "events": [fe.name_of(event) for event in events],
        "text": stream.text,
        "result": found and found.value,
        "result_status": found and found.status,
        "usage": stream.usage,
        "objects": [_object(o) for o in stream.objects],
        "tool_calls": [_call(used) for used in stream.tools],
        "errors": [e.code for e in stream.errors],
        "answers": [_any_error(a, expected) for a in replay.answers],
    }
    for name in expected.keys() & actual.keys():
        assert actual[name] == expected[name], name
    assert replay.resumed == expected.get("resumed", [])
    stated = expected.get("error")
    assert (error and error.code) == (stated and stated["code"]), error
    if stated is None:
        return
    assert error.http_status == stated.get("status", error.http_status)
    assert error.problem.where == stated.get("where", error.problem.where)
    assert error.problem.text == stated.get("message", error.problem.text)
    if "retry_after_ms" in stated:
        assert error.retry_after * 1000 == stated["retry_after_ms"]


def _object(found) -> dict:
    status = {} if found.status == "valid" else {"status": found.status}
    return {"id": found.id, "schema": found.schema, "value": found.value, **status}


def _call(used) -> dict:
    flags = {name: True for name in ("client", "cached") if getattr(used, name)}
    return {"id": used.id, "name": used.name, "args": used.args, "result": used.result, **flags}


def _any_error(answer: dict, expected: dict) -> dict:
    stated = [a for a in expected.get("answers", ()) if a["id"] == answer["id"]]
    return {**answer, "error": True} if stated and stated[0].get("error") is True else answer
