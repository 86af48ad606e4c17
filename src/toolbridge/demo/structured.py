"""The demo model in structured streams: text, objects, tool calls and one result.

Everything it writes fits its schema, with one intended exception: before it books a table it leaves
out a member of an `Action`, and corrects it in the repair. This demonstrates repairs.
"""

import re
from collections.abc import Iterator

from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Call, Request, Tool
from toolbridge.demo import speech
from toolbridge.demo import structured_dining as dining
from toolbridge.demo.facts import PromptFacts
from toolbridge.demo.fill import Filler
from toolbridge.demo.intent import read_intents
from toolbridge.demo.matching import matching_calls
from toolbridge.demo.offer import OfferedTools
from toolbridge.demo.restaurant.schemas import SCHEMAS
from toolbridge.demo.structured_reading import (
    BrokenFrame,
    CalledTool,
    SchemaForm,
    StructuredPrompt,
    maybe_asked,
)
from toolbridge.demo.structured_values import NoValue, arguments_of, corrected, known_in, value_of
from toolbridge.demo.tools import fulfil
from toolbridge.structured.sentinels import CLOSING, OPENING, Kind, escape, write_frame

_CLAUSE = re.compile(r"[;\n]|(?<=[.!?]) |,? and then |,? then ", re.IGNORECASE)
_ACTION = "Action"
_ZONES = frozenset({"tz", "timezone", "time_zone"})
_ZONE = re.compile(r"UTC|[A-Z][A-Za-z_]{1,30}/[A-Z][A-Za-z_/-]{1,40}")
_MOST_OBJECTS = 4
_MOST_CALLS = 8
_MOST_CITED = 5


def structured_answer(request: Request) -> str | None:
    """Return the answer to a request of a structured stream; None for any other request."""
    asked = maybe_asked(request)
    match asked:
        case None:
            return None
        case BrokenFrame():
            return _again(asked)
        case StructuredPrompt(bare=True):
            return escape(_value(asked.result, asked, *_outcome(asked)))
        case StructuredPrompt():
            return _Scribe(asked).answer()


def _again(broken: BrokenFrame) -> str:
    try:
        return escape(dumps(corrected(broken)))
    except NoValue as error:
        return f"I cannot write that: {error}."


class _Scribe:
    """Writes one answer: up to the next tool call, or to the end."""

    def __init__(self, asked: StructuredPrompt) -> None:
        self._asked = asked
        self._ids = set(asked.ids)
        self._written: list[str] = []

    def answer(self) -> str:
        wish = dining.maybe_wish(self._asked)
        call = self._plain() if wish is None else self._dine(wish)
        if call is None:
            self._conclude()
        else:
            self._frame("tool", call.name, dumps(call.arguments))
        return "".join(self._written)

    def _say(self, text: str) -> None:
        # A sentinel in the prompt is repeated with escaped brackets, as text.
        self._written.append(text.replace(OPENING, "[").replace(CLOSING, "]"))

    def _frame(self, kind: Kind, name: str, body: str) -> None:
        letter = kind[0].upper()
        number = 1
        while (id := f"{letter}{number}{self._asked.tag}") in self._ids:
            number += 1
        self._ids.add(id)
        self._written.append(write_frame(kind, id, name, body))

    # The restaurant demonstration.

    def _dine(self, wish: dining.Wish) -> Call | None:
        evening = dining.read_evening(wish, self._asked.called)
        if evening.found is None:
            self._say(f"I will look for {wish.query} near you. ")
            self._act("search", {"kind": "time", "at": wish.at} if wish.at else None, wish.query)
            return Call("", dining.SEARCH, dining.search_arguments(wish))
        place = evening.choice
        if not wish.books or not wish.at or evening.booking or place is None:
            return None
        if evening.tried:
            self._say(f"That did not work ({evening.trouble}), so I try {place.get('name')}. ")
        else:
            self._say(f"{place.get('name')} is open at {wish.at}, so I book a table there. ")
            self._forget(str(place.get("id")))
        return Call("", dining.BOOK, dining.book_arguments(wish, place))

    def _knows_action(self) -> bool:
        form = self._asked.object(_ACTION)
        return form is not None and form.schema.get("required") == SCHEMAS[_ACTION]["required"]

    def _act(self, mode: str, target: JsonObject | None, query: str) -> None:
        if self._knows_action():
            action = {"mode": mode, "target": target or {"kind": "place", "id": query}}
            self._frame("object", _ACTION, dumps(action))

    def _forget(self, place: str) -> None:
        """Write the action without its `target`, which has a wrong name."""
        if self._knows_action():
            action = {"mode": "book", "place": {"id": place}}
            self._frame("object", _ACTION, dumps(action))

    # Any other prompt.

    def _plain(self) -> Call | None:
        asked = self._asked
        calls = _calls(asked)
        made = len(asked.called)
        if not made:
            self._say(_opening(asked, calls))
            self._show_objects()
        if made >= len(calls) or (made and asked.called[-1].failed):
            return None
        return calls[made]

    def _show_objects(self) -> None:
        for form in self._asked.objects[:_MOST_OBJECTS]:
            if (
                form.schema.get("title") == _ACTION
            ):  # an action belongs to the restaurant demonstration
                continue
            filler = Filler(PromptFacts(self._asked.words), say=self._asked.words[:200])
            try:
                self._frame("object", form.name, dumps(value_of(form, filler, {})))
            except NoValue:
                continue

    def _conclude(self) -> None:
        text, citations = _outcome(self._asked)
        self._say(f"{text} " if self._asked.called else "")
        form = self._asked.result
        self._frame("result", form.name, _value(form, self._asked, text, citations))


def _opening(asked: StructuredPrompt, calls: list[Call]) -> str:
    if calls:
        return f"{speech.announce(calls, [])} "
    return f"{speech.small_talk(asked.words)} "


def _calls(asked: StructuredPrompt) -> list[Call]:
    """Return all calls that the prompt asks for, in order, with valid arguments."""
    tools = tuple(Tool(form.name, form.description, form.schema) for form in asked.tools)
    kit = OfferedTools(tools)
    found: list[Call] = []
    for clause in [part for part in _CLAUSE.split(asked.words) if part and part.strip()]:
        for call in _wanted(clause.strip(), kit):
            fitted = _fitted(call, asked)
            if fitted is not None and fitted not in found:
                found.append(fitted)
    return found[:_MOST_CALLS]


def _wanted(words: str, kit: OfferedTools) -> Iterator[Call]:
    intents = [intent for step in read_intents(words) for intent in step]
    calls = [call for intent in intents if (call := fulfil(intent, kit)) is not None]
    yield from calls or matching_calls(words, kit)


def _fitted(call: Call, asked: StructuredPrompt) -> Call | None:
    form = asked.tool(call.name)
    if form is None:
        return None
    given = {name: value for name, value in call.arguments.items() if not _is_no_zone(name, value)}
    arguments = arguments_of(form, given, Filler(PromptFacts(asked.words)))
    return None if arguments is None else Call("", call.name, arguments)


def _is_no_zone(name: str, value: Json) -> bool:
    """Whether a time-zone argument is not a time zone, which the schema cannot check."""
    return name.lower() in _ZONES and not _ZONE.fullmatch(str(value))


def _outcome(asked: StructuredPrompt) -> tuple[str, list[str]]:
    """Return the final text and its citations."""
    wish = dining.maybe_wish(asked)
    if wish is None and any(call.name == dining.SEARCH for call in asked.called):
        # A request for the result alone does not list the tools.
        wish = dining.Wish("places", dining.clock_in(asked.words), books=True)
    if wish is not None:
        return dining.conclusion(dining.read_evening(wish, asked.called))
    if asked.called:
        return " ".join(_report(call) for call in asked.called), [c.name for c in asked.called]
    return speech.small_talk(asked.words), []


def _report(call: CalledTool) -> str:
    if call.failed:
        return f"The tool {call.name} failed: {speech.excerpt(dumps(call.result))}"
    result = call.result if isinstance(call.result, str) else dumps(call.result)
    return f"The tool {call.name} answered: {speech.excerpt(result)}"


def _value(form: SchemaForm, asked: StructuredPrompt, text: str, citations: list[str]) -> str:
    """Return the JSON of the result."""
    known: JsonObject = {}
    for call in reversed(asked.called):
        known |= {} if call.failed else known_in(call.result)
    cited: list[Json] = [id for id in dict.fromkeys(citations[:_MOST_CITED])]  # noqa: C416  typed
    known |= {"answer": text, "citations": cited}
    try:
        return dumps(value_of(form, Filler(PromptFacts(asked.words), say=text), known))
    except NoValue as error:
        return f"I cannot write that: {error}."
