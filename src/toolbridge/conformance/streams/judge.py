"""Compares a play of a stream case with its expectation."""

from collections.abc import Callable, Iterable

from toolbridge.conformance.json_path import pick, text
from toolbridge.conformance.streams.cases import (
    ExpectedRequest,
    StreamCase,
    StreamExpectation,
    body_of,
    expand,
)
from toolbridge.conformance.streams.connections import WireEvent
from toolbridge.conformance.streams.grammar import CaseFacts, EventChecker, ping_faults
from toolbridge.conformance.streams.play import PlayResult
from toolbridge.core.json import Json, JsonObject, dumps, loads
from toolbridge.demo.restaurant import schemas as restaurant
from toolbridge.structured import builtin

_SHORT = {
    "text": ("text.delta",),
    "json": ("json.begin", "json.delta", "json.end"),
    "result": ("result.begin", "result.delta", "result.end"),
}
_SHOWN = 300


def judge(case: StreamCase, played: PlayResult) -> list[str]:
    """Return the faults; empty if the play is correct."""
    if case.expect.rejected is not None or played.refusal is not None:
        return [*played.faults, *_rejection(case, played)]
    reading = EventChecker(facts_of(case))
    reading.read(played.events, played.run)
    found = [*played.faults, *reading.faults, *ping_faults(played.pings)]
    found += _order(case.expect, played.events)
    for check in _CHECKS:
        found += check(case.expect, reading)
    found += _heard(case, played)
    return [*found, *_manners(case.expect, played), *_anew(case, played)]


def _anew(case: StreamCase, played: PlayResult) -> Iterable[str]:
    """Yield what is wrong with a second run of the same request."""
    if not case.expect.anew:
        return
    if played.anew_run == played.run:
        yield "the second run is the first"
    reading = EventChecker(facts_of(case))
    reading.read(played.anew, played.anew_run)
    yield from (f"anew: {fault}" for fault in reading.faults)
    wanted, came = spelled(case.expect.anew), names(played.anew)
    if wanted != came:
        yield f"anew: expected the events {' '.join(wanted)}; came {' '.join(came)}"
    cached = tuple(id for id, told in reading.results.items() if told.get("cached"))
    if cached != case.expect.anew_cached:
        yield _differs("cached results", [*case.expect.anew_cached], [*cached])


def facts_of(case: StreamCase) -> CaseFacts:
    """Return the schemas and tools of a case's request."""
    body = body_of(case, "")
    asked = body if isinstance(body, dict) else {}
    given, tools = asked.get("schemas"), asked.get("tools")
    schemas = {
        **builtin.SCHEMAS,
        **restaurant.SCHEMAS,
        **{k: v for k, v in _object(given).items() if isinstance(v, dict)},
    }
    parameters = {name: schema for name, schema in restaurant.SCHEMAS.items() if "." in name}
    for tool in tools if isinstance(tools, list) else []:
        found = pick(tool, "parameters")
        if isinstance(found, dict):
            parameters[text(tool, "name")] = found
    held = asked.get("hold_results") is True
    return CaseFacts(schemas, parameters, held=held, quotes=case.expect.quotes)


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _rejection(case: StreamCase, played: PlayResult) -> Iterable[str]:
    wanted, came = case.expect.rejected, played.refusal
    if wanted is None:
        yield f"was refused: {came.status if came else ''} {came.error if came else ''}"
        return
    if came is None:
        yield f"expected status {wanted.status} {wanted.code}, came a stream"
        return
    if came.status not in {0, wanted.status}:
        yield f"expected status {wanted.status}, came {came.status}: {came.error}"
    if came.error.get("code") != wanted.code:
        yield f"expected the code {wanted.code}, came {came.error}"
    if wanted.where is not None and came.error.get("where", "") != wanted.where:
        yield f"expected that it is at {wanted.where!r}, came {came.error}"
    if wanted.has not in text(came.error, "message"):
        yield f"expected {wanted.has!r} in the message, came {came.error}"
    if not text(came.error, "message"):
        yield "the error says nothing"
    if len(played.heard) != (case.expect.requests or 0):
        yield f"the model was asked {len(played.heard)} times for a request that was refused"


# ── the events ───────────────────────────────────────────────────────────────


def spelled(events: str) -> list[str]:
    """Return a case's events with their full names."""
    found: list[str] = []
    for word in events.split():
        if set(word.split("+")) == {"tool"}:  # `tool+tool`: two calls that run at the same time
            calls = word.count("tool")
            found += [*["tool.call"] * calls, *["tool.result"] * calls]
        else:
            found += _SHORT.get(word, (word,))
    return found


def names(events: Iterable[WireEvent]) -> list[str]:
    """Return the events' names, runs of deltas as one, errors with their codes."""
    found: list[str] = []
    for told in events:
        name = f"error:{told.data.get('code')}" if told.name == "error" else told.name
        if not (name.endswith(".delta") and found and found[-1] == name):
            found.append(name)
    return found


def _order(expect: StreamExpectation, events: list[WireEvent]) -> Iterable[str]:
    wanted, came = spelled(expect.events), names(events)
    if wanted != came:
        yield f"expected the events {' '.join(wanted)}; came {' '.join(came)}"
    if len(events) < expect.fewest:
        yield f"expected at least {expect.fewest} events, came {len(events)}"
    if expect.most and len(events) > expect.most:
        yield f"nobody read, and yet there are {len(events)} events, not {expect.most} at most"


def _frames(expect: StreamExpectation, reading: EventChecker) -> Iterable[str]:
    if expect.text is not None and reading.text != (wanted := expand(expect.text)):
        yield _differs("text", wanted, reading.text)
    for id, frame in reading.frames.items():
        if frame.status != (status := expect.status.get(id, "")):
            yield f"{id}: expected the status {status or 'valid'}, came {frame.status or 'valid'}"
    if missing := {*expect.values, *expect.status, *expect.chunks} - reading.frames.keys():
        yield f"no frames came for {', '.join(sorted(missing))}"
    for id, frame in reading.frames.items():
        if id in expect.values and frame.value != (value := loads(expand(expect.values[id]))):
            yield _differs(id, value, frame.value)
        if id in expect.chunks and frame.written != (written := expand(expect.chunks[id])):
            yield _differs(f"chunks of {id}", written, frame.written)
        if id in expect.error:
            code = text(frame.value, "diagnostics.error")
            if code != expect.error[id]:
                yield f"{id}: expected the diagnostics {expect.error[id]}, came {code!r}"


def _inventions(expect: StreamExpectation, reading: EventChecker) -> Iterable[str]:
    for id, wanted in expect.invented.items():
        came = reading.frames[id].invented if id in reading.frames else ()
        if came != wanted:
            yield _differs(f"invented in {id}", [*wanted], [*came])


def _tools(expect: StreamExpectation, reading: EventChecker) -> Iterable[str]:
    for id, written in expect.args.items():
        came = reading.calls.get(id, {}).get("args")
        if came != (args := loads(expand(written))):
            yield _differs(f"arguments of {id}", args, came)
    for id, written in expect.results.items():
        came = reading.results.get(id, {}).get("result")
        if came != (result := loads(expand(written))):
            yield _differs(f"result of {id}", result, came)
    for id, words in expect.results_have.items():
        said = dumps(reading.results.get(id, {}).get("result"))
        yield from (f"{id}: expected {w!r}, came {said[:_SHOWN]}" for w in words if w not in said)
    failed = {id: text(told, "result.error.code") for id, told in reading.results.items()}
    if {id: code for id, code in failed.items() if code} != expect.failed:
        yield _differs("failures of tools", {**expect.failed}, {**failed})
    cached = tuple(id for id, told in reading.results.items() if told.get("cached"))
    if cached != expect.cached:
        yield _differs("cached results", [*expect.cached], [*cached])


_CHECKS: tuple[Callable[[StreamExpectation, EventChecker], Iterable[str]], ...] = (
    _frames,
    _inventions,
    _tools,
)


# ── the model, and manners ───────────────────────────────────────────────────


def _heard(case: StreamCase, played: PlayResult) -> Iterable[str]:
    wanted = len(case.says) if case.expect.requests is None else case.expect.requests
    if len(played.heard) != wanted:
        yield f"the model was asked {len(played.heard)} times, not {wanted}"
        return
    for asked in case.expect.asked:
        yield from _asked(asked, played.heard[asked.at - 1])


def _asked(asked: ExpectedRequest, body: JsonObject) -> Iterable[str]:
    said = "\n".join(_words(pick(body, "messages")))
    for word in asked.has:
        if expand(word) not in said:
            yield f"request {asked.at} to the model lacks {word[:_SHOWN]!r}"
    for word in asked.lacks:
        if expand(word) in said:
            yield f"request {asked.at} to the model has {word[:_SHOWN]!r}"
    for path, value in asked.fields.items():
        if (came := pick(body, path)) != value:
            yield _differs(f"{path} of request {asked.at}", value, came)


def _words(value: Json) -> Iterable[str]:
    """Yield every text in `value`."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _words(part)


def _manners(expect: StreamExpectation, played: PlayResult) -> Iterable[str]:
    if expect.pings and not played.pings:
        yield "no ping came while the model was silent"
    if expect.hung_up and not played.hung_up:
        yield "the line to the model stays open after the end"


def _differs(what: str, wanted: Json, came: Json) -> str:
    return f"{what}: expected {dumps(wanted)[:_SHOWN]}, came {dumps(came)[:_SHOWN]}"
