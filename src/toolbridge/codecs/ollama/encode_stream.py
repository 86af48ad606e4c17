"""Our events as Ollama's lines, our message as its whole body, our problems as its errors.

A line says only what it adds, and belongs to no block: text, thought and calls are three flows.
Blocks of one kind that interleave are therefore let through one after another.
"""

from collections import deque
from math import ceil
from typing import Generic, TypeVar

from msgspec.structs import replace

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.encode_turns import encode_call
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words, loss_field, spelled
from toolbridge.core.codec import AnswerContext, Rejection
from toolbridge.core.errors import status_of
from toolbridge.core.fold import OWN_ENDS, Fold, broken_last
from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.core.logprobs import write_logprobs
from toolbridge.core.messages import Call, Message, Problem, StopReason, TokenLogprob
from toolbridge.core.usage import Usage

T = TypeVar("T")

_NOMINAL = 1_000_000
"""Nanoseconds a token, where nobody has measured: clients divide by durations."""


class StreamEncoder:
    """Events in, NDJSON out."""

    def __init__(self, asked: AnswerContext) -> None:
        self._envelope = _Envelope(asked)
        self._fold = Fold()
        """The answer without its deltas: its last line reports counts and losses."""
        self._texts: _Lane[str] = _Lane()
        self._thoughts: _Lane[str] = _Lane()
        self._calls: _Lane[Call] = _Lane()
        self._broken: list[Call] = []
        """Calls whose arguments are no JSON, until the end says whether it cut them."""
        self._called = 0
        self.elapsed = 0.0
        """Seconds that the answer took. A stage has no clock; a shell that has one sets this."""

    def feed(self, event: ev.Event, /) -> list[bytes]:
        match event:
            case ev.TextDelta(index, piece):
                if self._texts.current == index:  # nearly every event of nearly every stream
                    return [self._line({"content": piece})]
                return self._say(self._texts.write(index, piece))
            case ev.ThinkingDelta(index, piece):
                return self._think(self._thoughts.write(index, piece))
            case ev.CallDelta():
                return []  # a call is written whole, at its end
            case _:
                self._fold.feed(event)
                return self._feed_edge(event)

    def _feed_edge(self, event: ev.Event) -> list[bytes]:
        match event:
            case ev.TextStart(index):
                self._texts.open(index)
            case ev.ThinkingStart(index):
                self._thoughts.open(index)
            case ev.CallStart(index):
                self._calls.open(index)
            case _:
                return self._feed_rest(event)
        return []

    def close(self) -> list[bytes]:
        return []

    def keep_alive(self) -> bytes:
        return self._line({"content": ""})

    def _feed_rest(self, event: ev.Event) -> list[bytes]:
        match event:
            case ev.Started(_, model):
                self._envelope.model = self._envelope.model or model
            case ev.TextEnd(index):
                return self._say(self._texts.end(index))
            case ev.ThinkingEnd(index):
                return self._think(self._thoughts.end(index))
            case ev.CallEnd(index, call):
                now = self._calls.write(index, call)
                return self._call(now + self._calls.end(index))
            case ev.LogprobsReported(tokens):
                return [self._line({"content": ""}, _likely(tokens) | {"done": False})]
            case ev.PartAdded():
                instead = spelled(event, shapes.SHOWS)
                return [said for one in instead if one is not event for said in self.feed(one)]
            case ev.Finished(reason):
                message = self._fold.message
                # A call is atomic: one that the token limit cut would be run like any other.
                broken = self._broken if reason in OWN_ENDS else []
                said = [self._called_line(call) for call in broken]
                end = self._envelope.end(reason, message.usage, self.elapsed)
                return [*said, self._line({"content": ""}, end | loss_field(message, shapes.SHOWS))]
            case ev.Failed(problem):
                return [*self._flush(), _error(problem) + b"\n"]
            case _:
                pass
        return []

    def _say(self, pieces: list[str]) -> list[bytes]:
        return [self._line({"content": piece}) for piece in pieces]

    def _think(self, pieces: list[str]) -> list[bytes]:
        return [self._line({"content": "", "thinking": piece}) for piece in pieces]

    def _call(self, calls: list[Call]) -> list[bytes]:
        self._broken += [call for call in calls if call.raw]
        return [self._called_line(call) for call in calls if not call.raw]

    def _called_line(self, call: Call) -> bytes:
        shown = encode_call(call, self._called)
        self._called += 1
        return self._line({"content": "", "tool_calls": [shown]})

    def _flush(self) -> list[bytes]:
        """Return what waits behind blocks that will never end."""
        said = self._think(self._thoughts.flush()) + self._say(self._texts.flush())
        return said + self._call(self._calls.flush())

    def _line(self, message: JsonObject, end: JsonObject | None = None) -> bytes:
        return self._envelope.wrap(message, end or {"done": False}) + b"\n"


class _Lane(Generic[T]):
    """Blocks of one kind: the oldest that is open speaks, what the others say waits."""

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        self.current = -1
        """The index of the block that is written, -1 where none is open."""
        self._held: dict[int, list[T]] = {}
        self._ended: set[int] = set()

    def open(self, index: int) -> None:
        self._order.append(index)
        self._held[index] = []
        self.current = self._order[0]

    def write(self, index: int, piece: T) -> list[T]:
        if self._order[0] == index:
            return [piece]
        self._held[index].append(piece)
        return []

    def end(self, index: int) -> list[T]:
        self._ended.add(index)
        freed: list[T] = []
        while self._order and self._order[0] in self._ended:
            self._held.pop(self._order.popleft())
            if self._order:
                freed += self._held[self._order[0]]
                self._held[self._order[0]] = []
        self.current = self._order[0] if self._order else -1
        return freed

    def flush(self) -> list[T]:
        return [piece for index in self._order for piece in self._held.pop(index)]


class _Envelope:
    """What stands around every message, in the shape of the endpoint that was asked."""

    def __init__(self, asked: AnswerContext) -> None:
        self.model = asked.request.model
        self._asked = asked
        self._at = rfc3339(asked.at)
        self._generate = bool(asked.request.extra.get(shapes.GENERATE))

    def wrap(self, message: JsonObject, end: JsonObject) -> bytes:
        whole: JsonObject = {"model": self.model, "created_at": self._at}
        if self._generate:
            whole["response"] = message["content"]
            whole |= {name: message[name] for name in ("thinking", "tool_calls") if name in message}
        else:
            whole["message"] = {"role": "assistant", **message}
        return dump_bytes(whole | end)

    def end(self, reason: StopReason, usage: Usage, elapsed: float = 0.0) -> JsonObject:
        """Return what only the last line says. No duration is 0: clients divide by them."""
        given = usage.input_total or self._asked.estimate
        nominal = (given + usage.output) * _NOMINAL
        total = max(2, int(elapsed * 1e9) or nominal)
        reading = max(1, total * given // (given + usage.output + 1))
        return {
            "done": True,
            "done_reason": self._done_reason(reason),
            "total_duration": total,
            "load_duration": 1,
            "prompt_eval_count": given,
            "prompt_eval_duration": reading,
            "eval_count": usage.output,
            "eval_duration": max(1, total - reading),
        }

    def _done_reason(self, reason: StopReason) -> str:
        extra = self._asked.request.extra
        if extra.get(shapes.LOAD):
            return "unload" if extra.get("keep_alive") in (0, "0") else "load"
        return shapes.DONE_REASONS.get(reason, "stop")


def encode_message(message: Message, asked: AnswerContext) -> bytes:
    """Return the answer as one body: what its stream says, said at once."""
    if message.problem is not None:
        return _error(message.problem)
    message = replace(message, content=in_words(message.content, shapes.SHOWS))
    envelope = _Envelope(asked)
    envelope.model = envelope.model or message.model
    body: JsonObject = {"content": message.text}
    if thinking := message.thinking:
        body["thinking"] = thinking
    if calls := [part for part in broken_last(message) if isinstance(part, Call)]:
        body["tool_calls"] = [encode_call(call, number) for number, call in enumerate(calls)]
    end = envelope.end(message.stop or "end", message.usage)
    return envelope.wrap(body, _likely(message.logprobs) | end)


def _likely(tokens: tuple[TokenLogprob, ...]) -> JsonObject:
    return {"logprobs": write_logprobs(tokens)} if tokens else {}


def encode_rejection(problem: Problem, request_id: str) -> Rejection:
    """Return the status and `{"error": …}`; Ollama's envelope has no place for an id."""
    status = status_of(problem)
    headers = {"x-request-id": request_id}
    if problem.retry_after is not None:
        headers["retry-after"] = str(ceil(problem.retry_after))
    if problem.permanent:
        headers["x-should-retry"] = "false"
    # 529 is Anthropic's own number; this API says 503.
    return Rejection(503 if status == 529 else status, _error(problem), headers)


def _error(problem: Problem) -> bytes:
    text = f"{problem.where}: {problem.text}" if problem.where else problem.text
    return dump_bytes({"error": text})


def rfc3339(at: float) -> str:
    """Return seconds since the epoch as `2026-11-15T18:00:00.123456Z`.

    The calendar repeats every 400 years of 146,097 days; years are counted from March, so that the
    day that some of them lack is the last one.
    """
    microseconds = round(at * 1_000_000)
    seconds, micro = divmod(microseconds, 1_000_000)
    days, second = divmod(seconds, 86_400)
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    march = (5 * day + 2) // 153
    date = day - (153 * march + 2) // 5 + 1
    month = march + 3 if march < 10 else march - 9
    year += 400 * era + (month <= 2)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{micro:06}"
    return f"{year:04}-{month:02}-{date:02}T{clock}Z"
