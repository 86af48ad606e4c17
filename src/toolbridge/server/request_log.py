"""The request log: one line per request, with provider, model, duration, tokens, losses and healing.

Field names follow OpenTelemetry's conventions for generative AI where they exist. Prompts, answers
and keys are never written: healing steps are logged without the text that they changed, every line
passes the redactor, and its length is limited. A log that cannot be written or is not read does not
change any answer.
"""

import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol, TextIO

import msgspec

from toolbridge.accounting.limits_of_keys import nanos
from toolbridge.core.fold import without_cut_calls
from toolbridge.core.json import Json, dumps
from toolbridge.core.masking import without_quotes
from toolbridge.core.messages import HealingReport, Loss, Message
from toolbridge.core.redaction import Redactor, is_secret_name
from toolbridge.core.usage import Usage
from toolbridge.store.ledger import INTERRUPTED, LedgerRow
from toolbridge.store.log_output import MOST_LATER, LogOutput, standard_error

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LONGEST = 500
"""Characters of one text in a line."""
_SHORT = 4096
"""Characters of one text in a row of the ledger, until its secrets are masked."""
_ROW_FIELDS = (
    "toolbridge.key", "client.name", "session.id", "surface",
    "gen_ai.request.model", "gen_ai.response.model", "gen_ai.provider.name", "error.type",
)  # fmt: skip
"""The fields of an entry that a row of the ledger has."""
_BLANKS = ("",) * len(_ROW_FIELDS)
_MOST = 20
"""Items of one list in a line."""
_OWN = ("time", "request.id")
"""The first fields of a line. The gateway makes their texts, new ones for each request."""
_UPSTREAM_ID = "upstream.request.id"
_CHOSEN = frozenset({"tried", "dropped", "healed", "error.type", "error.message"})
"""The fields after those of the request with texts that a client or a provider may choose."""
_encode = msgspec.json.Encoder().encode
_MOST_TOGETHER = 32
"""Lines of a turn that are written together."""
_MOST_PLAIN = 1000
"""Fields in memory that are written as they are: models, paths and clients repeat."""
_MILLISECONDS = [f".{number:03d}Z" for number in range(1000)]
"""The ends of times; a table, because a format takes as long as the rest of a line's fields."""
_TENTHS = 10_000
"""Tenths of a millisecond in a second."""
_NOTHING = Usage()


class EndedRows(Protocol):
    """Gets the rows of requests that have ended."""

    def add(self, row: LedgerRow, *, later: bool) -> None: ...


class Entry(msgspec.Struct, eq=False):
    """The log entry of one request, filled in while it is served."""

    id: str
    fields: dict[str, Json] = {}
    started: float = msgspec.field(default_factory=time.monotonic)
    at: float = msgspec.field(default_factory=time.time)
    took: float | None = None
    """The seconds of the whole request; None while it runs."""
    first_token: float | None = None
    losses: list[Loss] = []
    tried: Sequence[str] = ()
    """The addresses of the chain that did not answer, and why."""
    tried_providers: Sequence[tuple[str, str]] = ()
    """The provider and the class of the failure of each of them."""
    healed: tuple[HealingReport, ...] = ()
    message: Message | None = None
    inner: list[tuple["Entry", int]] = []
    """The requests that the gateway itself made for this one, with their status."""
    asks_model: bool = False
    """Whether the request asks a model, so that the ledger gets a row."""
    handed_over: bool = False
    """Whether the task that makes the answer records the entry, instead of the client's."""
    free: bool = False
    """Whether the model costs nothing, because it runs on this machine."""
    trace_parent: str = ""
    """The client's `traceparent` header; the span of this request continues its trace."""
    estimated: bool = False
    """Whether the usage of the answer is an estimate."""
    body: bytes = b""
    """The request body; quotes from it are removed from logged errors."""
    status: int = 0
    """The status of the response, when the request has ended."""
    ended: LedgerRow | None = None
    """The row of the request that has ended, if it was put into the ledger."""
    on_end: Callable[[int], None] | None = None
    """Called with the status when the request has ended; `kept_requests` keeps it then."""

    def note(self, **fields: Json) -> None:
        """Set fields; a double underscore in a name stands for a dot."""
        for name, value in fields.items():
            self.fields[name.replace("__", ".")] = value

    def note_first_token(self) -> None:
        """Record the time to first token."""
        if self.first_token is None:
            self.first_token = time.monotonic() - self.started

    @property
    def seconds(self) -> float:
        """The duration of the request, or how long it has been running."""
        return time.monotonic() - self.started if self.took is None else self.took

    def finish(self, message: Message, estimated: bool = False) -> None:  # noqa: FBT001, FBT002
        self.message = message
        self.estimated = estimated
        self.healed = without_cut_calls(message).healed

    def end_in(self, ledger: EndedRows) -> bool:
        """Put the row of a request that has ended into the ledger, once; return whether it has."""
        if self.took is None or not self.asks_model:
            return False
        if self.ended is None:
            self.ended = self.row(self.status)
            ledger.add(self.ended, later=True)
        return True

    def row(self, status: int) -> LedgerRow:
        """Return the row of the ledger: the fields of `line` without texts."""
        message = self.message
        if message is None:
            return self._row(status, "", _NOTHING, self.estimated)
        problem = message.problem
        error = "" if problem is None else problem.kind
        return self._row(status, error, message.usage, self.estimated)

    def running_row(self, usage: Usage, estimated: bool) -> LedgerRow:  # noqa: FBT001
        """Return the row of a request whose process is killed now."""
        return self._row(0, INTERRUPTED, usage, estimated)

    def _row(self, status: int, problem: str, usage: Usage, estimated: bool) -> LedgerRow:  # noqa: FBT001
        fields = self.fields
        cost = usage.cost
        first = self.first_token
        took = time.monotonic() - self.started if self.took is None else self.took
        # They are texts, in nearly every entry.
        texts: list[str] = [*map(fields.get, _ROW_FIELDS, _BLANKS)]  # type: ignore[list-item]
        try:
            is_short = len("".join(texts)) <= _SHORT
        except TypeError:
            is_short = False
        if not is_short:
            texts = [str(text)[:_SHORT] for text in texts]
        key, client, session, api, asked, model, provider, error = texts
        if not error or problem == INTERRUPTED:
            error = problem
        routes: tuple[str, ...] = (f"{provider}/{model}",) if provider else ()
        if "routes.tried" in fields:
            routes = self._tried_routes()
        # By position, in the order of the fields: names cost a third of the time.
        return LedgerRow(
            self.id, self.at, key, client, session, api, asked, model, provider, routes,
            status, error,
            usage.input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning,
            estimated,
            nanos(cost.total) if cost is not None else 0 if self.free else None,
            "USD",
            # In milliseconds with one digit; `round` takes twenty times as long.
            None if first is None else int(first * _TENTHS + 0.5) / 10,
            int(took * _TENTHS + 0.5) / 10,
            sum([len(report.steps) for report in self.healed]) if self.healed else 0,
            len(self.losses),
        )  # fmt: skip

    def _tried_routes(self) -> tuple[str, ...]:
        """Return the addresses that were tried in a failover."""
        tried = self.fields["routes.tried"]
        found = tried if isinstance(tried, list) else []
        return tuple(str(address)[:_SHORT] for address in found[:_MOST])

    def line(self, status: int) -> dict[str, Json]:
        own: dict[str, Json] = {"time": stamp(self.at), "request.id": self.id}
        return {**own, **self.fields, **self.ending(status)}

    def ending(self, status: int) -> dict[str, Json]:
        """Return what a line has after `fields`, and what takes the place of some of them."""
        took = self.seconds if self.took is None else self.took
        shown: dict[str, Json] = {
            "http.response.status_code": status,
            "duration_ms": int(took * _TENTHS + 0.5) / 10,
        }
        if (first := self.first_token) is not None:
            shown["gen_ai.server.time_to_first_token_ms"] = int(first * _TENTHS + 0.5) / 10
        if self.message is not None:
            _show_answer(shown, self.message)
        if self.estimated:
            shown["usage.estimated"] = True
        message = shown.get("error.message", self.fields.get("error.message"))
        if isinstance(message, str) and self.body:
            shown["error.message"] = self._unquoted(message)
        if self.tried:
            shown["tried"] = [self._unquoted(text) for text in self.tried]
        if self.losses:
            shown["dropped"] = [str(loss) for loss in self.losses]
        if self.healed:
            shown["healed"] = [_healed(report) for report in self.healed]
        return shown

    def _unquoted(self, text: str) -> str:
        """Return the text of an error without quotes from the request."""
        return without_quotes(str(_bounded(text)), self.body.decode("utf-8", "replace"))


def _healed(report: HealingReport) -> Json:
    """Return the healing steps without the texts before and after, which are part of the answer."""
    steps: list[Json] = [{"what": step.what, "level": step.level} for step in report.steps]
    return {"name": report.name, "level": report.level, "steps": _bounded(steps)}


def _bounded(value: Json) -> Json:
    """Return `value` with long texts and long lists shortened."""
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]}… ({len(value)} characters)"
    if isinstance(value, list):
        more: list[Json] = [f"… ({len(value)} in all)"] if len(value) > _MOST else []
        return [_bounded(item) for item in value[:_MOST]] + more
    return value


def _show_answer(shown: dict[str, Json], message: Message) -> None:
    """Add the fields of the answer to a line."""
    usage = message.usage
    shown["gen_ai.usage.input_tokens"] = usage.input + usage.cache_read + usage.cache_write
    shown["gen_ai.usage.output_tokens"] = usage.output
    if usage.cache_read or usage.cache_write:
        shown["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read
        shown["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write
    if usage.vision:
        shown["gen_ai.usage.vision.tokens"] = usage.vision
    if usage.cost is not None:
        shown["cost_usd"] = usage.cost.total
    if message.stop is not None:
        shown["gen_ai.response.finish_reasons"] = [message.stop]
    if message.problem is not None:
        shown["error.type"] = message.problem.kind
        shown["error.message"] = message.problem.text


class RequestLog:
    """Writes entries: JSON lines, or short lines on a terminal."""

    def __init__(
        self, style: str, out: TextIO | None = None, redactor: Redactor | None = None
    ) -> None:
        self._out = standard_error() if out is None else LogOutput(out)
        self._redactor = redactor or Redactor()
        # A process may have been started without standard error.
        self.writes = style != "off" and self._out is not None
        pretty = self._out is not None and (
            style == "pretty" or (style == "auto" and _is_terminal(self._out.out))
        )
        self._style = "pretty" if pretty else "json"
        self._plain: set[tuple[str, str]] = set()
        """The fields that are written as they are."""
        self._parts: dict[tuple[Json, ...], bytes] = {}
        """The names and values of fields that are written as they are → their part of a line."""
        self._lines: list[bytes] = []

    def add(self, entry: Entry, status: int) -> None:
        """Put the line of a request among those that `write_added` writes."""
        fields, ending = entry.fields, entry.ending(status)
        plain = _CHOSEN.isdisjoint(ending)
        if plain and _UPSTREAM_ID in fields and next(reversed(fields)) == _UPSTREAM_ID:
            # The provider makes a new one for each request; the other fields repeat.
            fields = fields.copy()
            ending = dict([fields.popitem(), *ending.items()])
            plain = self._has_plain_fields(ending)
        known = self._repeated(fields) if plain else None
        if known is None:
            self._lines.append(self._encoded(entry.line(status)))
            return
        # The gateway makes these two texts, which need no escapes.
        own = f'{{"time":"{stamp(entry.at)}","request.id":"{entry.id}"'.encode()
        self._lines.append(b"%b%b,%b\n" % (own, known, _encode(ending)[1:]))

    def write_added(self, *, later: bool) -> None:
        """Write these lines; with `later` they may wait for the end of the turn of the event loop."""
        lines, self._lines = self._lines, []
        if self._out is None:
            return
        for at in range(0, len(lines), _MOST_TOGETHER):
            some = lines[at : at + _MOST_TOGETHER]
            data = b"".join(some)
            # The output drops what is longer than its buffer.
            for piece in [data] if len(data) <= MOST_LATER else some:
                self._out.write_bytes(piece, later=later)

    def _encoded(self, line: dict[str, Json]) -> bytes:
        """Return a line with what has to be shortened, masked and escaped."""
        if self._style == "json" and self._has_plain_fields(line):
            return _encode(line) + b"\n"
        bounded: dict[str, Json] = {name: _bounded(value) for name, value in line.items()}
        text = self._redactor.text(_pretty(bounded) if self._style == "pretty" else dumps(bounded))
        # Text from a client must not add lines to the log, nor control the terminal.
        text = _CONTROLS.sub(_escape if self._style == "json" else "?", text)
        return f"{text}\n".encode("utf-8", "backslashreplace")

    def _repeated(self, fields: dict[str, Json]) -> bytes | None:
        """Return the part of a line with these fields; None unless they are written as they are."""
        key = (*fields, *fields.values())
        try:
            found = self._parts.get(key)
        except TypeError:  # a list
            return None
        if found is None and self._style == "json" and self._has_plain_fields(fields):
            if len(self._parts) >= _MOST_PLAIN:
                self._parts.clear()
            found = self._parts[key] = b"," + _encode(fields)[1:-1] if fields else b""
        return found

    def _has_plain_fields(self, line: dict[str, Json]) -> bool:
        plain = self._plain
        for name, value in line.items():
            if type(value) is str:
                if (name, value) not in plain and name not in _OWN and not self._learn(name, value):
                    return False
            elif type(value) is list:
                if len(value) > _MOST:
                    return False
                for item in value:
                    if type(item) is not str:
                        return False
                    if (name, item) not in plain and not self._learn(name, item):
                        return False
        return True

    def _learn(self, name: str, text: str) -> bool:
        """Return whether a field is plain, and remember it if it is."""
        if len(text) > _LONGEST or not text.isprintable() or is_secret_name(name):
            return False
        if not self._redactor.is_plain(text):
            beside = dumps([text, ""])  # a name at its end may make the text after it a secret
            if self._redactor.text(beside) != beside:
                return False
        if len(self._plain) >= _MOST_PLAIN:
            self._plain.clear()
        self._plain.add((name, text))
        return True


def _is_terminal(out: TextIO) -> bool:
    try:
        return out.isatty()
    except (OSError, ValueError):  # closed
        return False


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _pretty(line: dict[str, Json]) -> str:
    shown = [
        str(line["time"])[11:19],
        str(line["http.response.status_code"]),
        f"{line.get('http.request.method', '')} {line.get('url.path', '')}",
    ]
    if "gen_ai.request.model" in line:
        shown.append(f"{line['gen_ai.request.model']} → {line.get('gen_ai.response.model', '?')}")
    if "gen_ai.usage.input_tokens" in line:
        tokens = f"{line['gen_ai.usage.input_tokens']}+{line['gen_ai.usage.output_tokens']}"
        shown.append(f"{tokens} tokens")
    shown.append(f"{line['duration_ms']} ms")
    counts = {
        key: found for key in ("dropped", "healed") if isinstance(found := line.get(key), list)
    }
    shown += [f"{key} {len(found)}" for key, found in counts.items()]
    if "error.message" in line:
        shown.append(f"{line['error.type']}: {line['error.message']}")
    return "  ".join(shown)


def stamp(at: float) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    return _whole_second(int(at)) + _MILLISECONDS[int(at % 1 * 1000)]


@lru_cache(maxsize=16)
def _whole_second(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
