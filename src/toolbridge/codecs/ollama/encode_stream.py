"""Our events as Ollama's lines, and our message as its whole body.

Ollama, docs/api: a line holds only what it adds and belongs to no block: text, thought and calls
are three separate flows. Blocks of one kind that interleave are therefore written one after the
other, each kind in an order of its own.
"""

from msgspec.structs import replace

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.encode_turns import encode_call
from toolbridge.codecs.ollama.rejections import encode_error
from toolbridge.codecs.ollama.usage import encode_usage, stream_durations, whole_durations
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words, loss_field, spelled
from toolbridge.core.answer_sources import sources_text
from toolbridge.core.block_order import BlockEvent, BlockOrder
from toolbridge.core.codec import AnswerContext
from toolbridge.core.fold import OWN_ENDS, Fold, broken_last
from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.core.logprobs import write_logprobs
from toolbridge.core.messages import Call, Message, StopReason, TokenLogprob
from toolbridge.core.usage import Usage


class StreamEncoder:
    """Encodes events as NDJSON."""

    def __init__(self, asked: AnswerContext) -> None:
        self._envelope = _Envelope(asked)
        self._fold = Fold()
        """The answer without its deltas: the last line reports its counts and losses."""
        self._texts = BlockOrder()
        self._thoughts = BlockOrder()
        self._calls = BlockOrder()
        self._broken: list[Call] = []
        """Calls with invalid arguments: written at the end unless the token limit cut them."""
        self._called = 0
        self._times = asked.times

    def feed(self, event: ev.Event, /) -> list[bytes]:
        match event:
            case ev.TextDelta(index, piece):
                if index == self._texts.current:  # a shortcut for the most frequent event
                    return [self._line({"content": piece})]
                return self._text_lines(self._texts.feed(event))
            case ev.ThinkingDelta():
                return self._thinking_lines(self._thoughts.feed(event))
            case ev.CallDelta():
                return []  # a call is written whole, at its end
            case _:
                self._fold.feed(event)
                return self._feed_rest(event)

    def close(self) -> list[bytes]:
        return []

    def keep_alive(self) -> bytes:
        return self._line({"content": ""})

    def _feed_rest(self, event: ev.Event) -> list[bytes]:
        match event:
            case ev.TextStart() | ev.TextEnd():
                return self._text_lines(self._texts.feed(event))
            case ev.ThinkingStart() | ev.ThinkingEnd():
                return self._thinking_lines(self._thoughts.feed(event))
            case ev.CallStart() | ev.CallEnd():
                return self._call_lines(self._calls.feed(event))
            case ev.Started(_, model):
                self._envelope.model = self._envelope.model or model
            case ev.LogprobsReported(tokens):
                return [self._line({"content": ""}, _logprobs(tokens) | {"done": False})]
            case ev.PartAdded():
                texts = [one for one in spelled(event, shapes.SHOWS) if one is not event]
                return self._text_lines([e for one in texts for e in self._texts.feed(one)])
            case ev.Finished(reason):
                message = self._fold.message
                # A call is atomic: clients would run one that the token limit has cut.
                broken = self._broken if reason in OWN_ENDS else []
                lines = [self._call_line(call) for call in broken]
                if sources := self._envelope.sources(message):
                    lines.append(self._line({"content": sources}))
                end = self._envelope.end(reason, message.usage, stream_durations(self._times))
                end |= loss_field(message, shapes.SHOWS)
                return [*lines, self._line({"content": ""}, end)]
            # Ollama, docs/api: a line with `error` ends a stream; there is no line with `done`.
            case ev.Failed(problem):
                return [*self._flush(), encode_error(problem) + b"\n"]
            case _:
                pass
        return []

    def _text_lines(self, events: list[BlockEvent]) -> list[bytes]:
        return [self._line({"content": e.text}) for e in events if isinstance(e, ev.TextDelta)]

    def _thinking_lines(self, events: list[BlockEvent]) -> list[bytes]:
        thoughts = (event.text for event in events if isinstance(event, ev.ThinkingDelta))
        return [self._line({"content": "", "thinking": text}) for text in thoughts]

    def _call_lines(self, events: list[BlockEvent]) -> list[bytes]:
        calls = [event.call for event in events if isinstance(event, ev.CallEnd)]
        self._broken += [call for call in calls if call.raw]
        return [self._call_line(call) for call in calls if not call.raw]

    def _call_line(self, call: Call) -> bytes:
        shown = encode_call(call, self._called)
        self._called += 1
        return self._line({"content": "", "tool_calls": [shown]})

    def _flush(self) -> list[bytes]:
        """Return the lines that are held behind blocks which will not end."""
        lines = self._thinking_lines(self._thoughts.flush())
        lines += self._text_lines(self._texts.flush())
        return lines + self._call_lines(self._calls.flush())

    def _line(self, message: JsonObject, end: JsonObject | None = None) -> bytes:
        return self._envelope.wrap(message, end or {"done": False}) + b"\n"


class _Envelope:
    """The fields around every message, in the shape of the requested endpoint."""

    def __init__(self, asked: AnswerContext) -> None:
        self.model = asked.request.model
        self._asked = asked
        self._at = rfc3339(asked.at)
        self._generate = bool(asked.request.extra.get(shapes.GENERATE))

    def wrap(self, message: JsonObject, end: JsonObject) -> bytes:
        # Ollama, docs/api: `created_at` is RFC 3339, and SDKs require it.
        whole: JsonObject = {"model": self.model, "created_at": self._at}
        if self._generate:
            whole["response"] = message["content"]
            whole |= {name: message[name] for name in ("thinking", "tool_calls") if name in message}
        else:
            # Ollama's SDKs require `message` with its role on every line.
            whole["message"] = {"role": "assistant", **message}
        return dump_bytes(whole | end)

    def end(self, reason: StopReason, usage: Usage, durations: JsonObject) -> JsonObject:
        """Return the fields of the last line."""
        done: JsonObject = {"done": True, "done_reason": self._done_reason(reason)}
        return done | encode_usage(usage, self._asked.estimate, durations)

    def sources(self, message: Message) -> str:
        """Return the links of an answer as text: Ollama has no field for them."""
        if self._asked.request.output is not None:
            return ""  # JSON that follows a schema must stay valid
        return sources_text(replace(message, content=in_words(message.content, shapes.SHOWS)))

    def _done_reason(self, reason: StopReason) -> str:
        extra = self._asked.request.extra
        if extra.get(shapes.LOAD):
            # Ollama, docs/api: without messages the reason is "load", and "unload" if keep_alive is 0.
            return "unload" if extra.get("keep_alive") in (0, "0") else "load"
        return shapes.DONE_REASONS.get(reason, "stop")


def encode_message(message: Message, asked: AnswerContext) -> bytes:
    """Return the answer as one body: the sum of the lines of its stream."""
    if message.problem is not None:
        return encode_error(message.problem)
    message = replace(message, content=in_words(message.content, shapes.SHOWS))
    envelope = _Envelope(asked)
    envelope.model = envelope.model or message.model
    body: JsonObject = {"content": message.text + envelope.sources(message)}
    if thinking := message.thinking:
        body["thinking"] = thinking
    if calls := [part for part in broken_last(message) if isinstance(part, Call)]:
        body["tool_calls"] = [encode_call(call, number) for number, call in enumerate(calls)]
    end = envelope.end(message.stop or "end", message.usage, whole_durations(asked.times))
    return envelope.wrap(body, _logprobs(message.logprobs) | end)


def _logprobs(tokens: tuple[TokenLogprob, ...]) -> JsonObject:
    return {"logprobs": write_logprobs(tokens)} if tokens else {}


def rfc3339(at: float) -> str:
    """Return seconds since the epoch as `2026-11-15T18:00:00.123456Z`.

    Pure packages have no clock, and `time.gmtime` is one. The calendar repeats every 400 years of
    146,097 days; years are counted from March, so that 29 February is the last day of a year.
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
