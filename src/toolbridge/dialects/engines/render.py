"""Writes calls and results into the history in the format of a dialect.

The templates follow each model's chat template: the history has the format of its training data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import Template

from toolbridge.core.json import Json
from toolbridge.core.messages import Call
from toolbridge.dialects.dialect import ResultText
from toolbridge.dialects.engines.spaced_json import spaced
from toolbridge.dialects.engines.values import type_of


def raw(value: Json) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else spaced(value)


def python(value: Json) -> str:
    """Return a Python literal, with texts in double quotes."""
    match value:
        case None | bool():
            return str(value)
        case list():
            return "[" + ", ".join(map(python, value)) + "]"
        case dict():
            members = (f"{spaced(key)}: {python(member)}" for key, member in value.items())
            return "{" + ", ".join(members) + "}"
        case _:
            return spaced(value)


def python_text(value: Json) -> str:
    """Return a Python literal with texts in single quotes, and an object as JSON (LFM2)."""
    return spaced(value) if isinstance(value, dict) else repr(value)


def quoted_with(mark: str) -> Callable[[Json], str]:
    """Return a formatter with `mark` around strings and without quotes around keys (Gemma)."""

    def spell(value: Json) -> str:
        match value:
            case str():
                return f"{mark}{value}{mark}"
            case list():
                return "[" + ",".join(map(spell, value)) + "]"
            case dict():
                members = (f"{key}:{spell(member)}" for key, member in value.items())
                return "{" + ",".join(members) + "}"
            case _:
                return spaced(value)

    return spell


def tree_with(token: str) -> Callable[[Json], str]:
    """Return a formatter of nested tags, each after `token` (MiniMax M3)."""

    def spell(value: Json) -> str:
        match value:
            case list():
                return "".join(f"{token}<item>{spell(item)}{token}</item>" for item in value)
            case dict():
                tags = (f"{token}<{k}>{spell(member)}{token}</{k}>" for k, member in value.items())
                return "".join(tags)
            case _:
                return raw(value)

    return spell


@dataclass(frozen=True)
class Renderer:
    """The templates of a dialect, with these variables.

    `call`: `$name`, `$json_name`, `$id`, `$index`, `$number`, `$arguments`, `$parameters`.
    `parameter`: `$key`, `$value`, `$type`, `$text`. `result`: `$name`, `$id`, `$result`, `$json`.
    """

    call: str
    result: str = "$result"
    parameter: str = ""
    between_parameters: str = ""
    open: str = ""
    close: str = ""
    between: str = "\n"
    results_open: str = ""
    results_close: str = ""
    between_results: str = "\n"
    spell: Callable[[Json], str] = raw
    escape: Callable[[str], str] = str
    """Escapes names and keys, for templates that write them into attributes."""

    def calls(self, calls: Sequence[Call]) -> str:
        written = (self._call(call, index) for index, call in enumerate(calls))
        return self.open + self.between.join(written) + self.close

    def results(self, results: Sequence[ResultText]) -> str:
        written = (
            Template(self.result).safe_substitute(
                name=r.name, id=r.id, result=r.text, json=spaced(r.text)
            )
            for r in results
        )
        return self.results_open + self.between_results.join(written) + self.results_close

    def _call(self, call: Call, index: int) -> str:
        return Template(self.call).safe_substitute(
            name=self.escape(call.name),
            json_name=spaced(call.name),
            id=call.id,
            index=index,
            number=index + 1,
            arguments=call.raw or spaced(call.arguments),
            parameters=call.raw
            or self.between_parameters.join(
                self._parameter(key, value) for key, value in call.arguments.items()
            ),
        )

    def _parameter(self, key: str, value: Json) -> str:
        kind = type_of(value)
        return Template(self.parameter).safe_substitute(
            key=self.escape(key),
            value=self.spell(value),
            type="number" if kind == "integer" else kind,
            text="true" if kind == "string" else "false",
        )


NAME_ARGUMENTS = '{"name": $json_name, "arguments": $arguments}'
NAME_PARAMETERS = '{"name": $json_name, "parameters": $arguments}'
