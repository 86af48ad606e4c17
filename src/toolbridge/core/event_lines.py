"""Events as text, one line each, so that a diff reads as a sentence."""

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.json import dumps
from toolbridge.core.messages import Opaque
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.core.usage import Usage


def tell_events(events: list[ev.Event]) -> str:
    """Return events as text, one line each; the end also shows the counts."""
    usage = collect(events).usage
    return "\n".join(_line(event, usage) for event in events)


def _line(event: ev.Event, usage: Usage) -> str:
    """Return an event as one line: its name, its block and what it brings."""
    name = event.__struct_config__.tag
    return f"{name:16}{' '.join(word for word in _words(event, usage) if word)}".rstrip()


def _words(event: ev.Event, usage: Usage) -> list[str]:
    match event:
        case ev.Started(id, model):
            return [id, model]
        case ev.TextEnd(index, part):
            return [str(index), *map(dumps, part.citations), *map(_token, part.opaque)]
        case ev.ThinkingStart(index, field):
            return [str(index), field]
        case ev.ThinkingEnd(index, thought):
            return [str(index), *map(_token, thought.opaque)]
        case ev.CallStart(index, id, name):
            return [str(index), id, name]
        case ev.CallEnd(index, call):
            written = f"raw {dumps(call.raw)}" if call.raw else dumps(call.arguments)
            return [str(index), written, *map(_token, call.opaque)]
        case ev.UsageReported(counts):
            return [dumps(counts)]
        case ev.Finished(reason, stop_sequence, details):
            stop = dumps(stop_sequence) if stop_sequence else ""
            why = dumps(details) if details else ""
            return [reason, stop, why, f"{usage.input_total} {usage.output}"]
        case ev.Failed(problem):
            return [problem.kind, dumps(problem.text)]
        case _:
            first, *rest = msgspec.structs.astuple(event)
            return [str(first), *map(_bare, rest)]


def _bare(value: object) -> str:
    """Return `value` as JSON; a part without the JSON that it was decoded from."""
    if isinstance(value, ServerCall | ServerResult):
        return dumps(msgspec.structs.replace(value, source=None))
    return dumps(value)


def _token(opaque: Opaque) -> str:
    return f"{opaque.origin}:{opaque.kind}:{opaque.value}"
