"""Calls as attributes in brackets: `[Calling tool="NAME" key="value"]` (Rapid-MLX reads them too)."""

from dataclasses import dataclass

from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.dialects.engines.arguments import Arguments
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.values import typed
from toolbridge.wire.tags import Wait

_CALL = lazy_pattern(r"\[[^=\[\]\n\"]*=\s*\"([^\"\n]+)\"((?:\s+[\w.-]+=\"[^\"]*\")*)\s*\]")
_PAIR = lazy_pattern(r"([\w.-]+)=\"([^\"]*)\"")
_BODY = lazy_pattern(r"(?:[^\"\]]|\"[^\"]*(?:\"|\Z))*")
_LIMIT = 4000


@dataclass(frozen=True)
class BracketCalls:
    """Parses one call; its values have no quotes inside."""

    @property
    def closing(self) -> tuple[str, ...]:
        return ("]",)

    def __call__(self, writer: EventWriter, _mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        body = yield from cursor.match(_BODY, _LIMIT)
        call = _CALL.fullmatch(body + "]")
        if call is None:
            raise NotACall("no attributes")
        name = writer.resolve(call.group(1))
        cursor.take(len(body))
        if not (yield from cursor.accept("]")):
            raise NotACall("no bracket")
        writer.call(name)
        arguments = Arguments(writer, name)
        for key, value in _PAIR.findall(call.group(2)):
            arguments.add(key, typed(value, arguments.types(key)))
        arguments.end()
