"""The tasks of a probe: three of each kind, with what a right answer must contain.

Each prompt names everything that the right arguments need, so that an answer can be judged without
knowledge of the world. `MODES` are the ways in which the tools reach the model.
"""

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import (
    Call,
    OutputFormat,
    Request,
    Result,
    Text,
    Think,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.policy.tool_modes import ToolMode
from toolbridge.probe.toolbox import (
    ALARM,
    EVENT,
    NUMBER,
    ORDER,
    READ,
    SEARCH,
    TEXT,
    TOOLBOX,
    WEATHER,
    closed_object,
)

MODES: tuple[ToolMode, ...] = ("native", "prompt", "constrained")
KINDS = {
    "one-call": "one call",
    "parallel": "parallel calls",
    "nested": "nested arguments",
    "long": "long content",
    "no-call": "no call wanted",
    "after-result": "call after a result",
    "schema": "output schema",
    "thinking": "thinking",
}
"""Kind of task → its label on a card."""


class WantedCall(msgspec.Struct, frozen=True):
    """A call that a right answer contains; `arguments` may be a part of the arguments."""

    name: str
    arguments: JsonObject


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A request and what a right answer to it contains."""

    id: str
    kind: str
    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    calls: tuple[WantedCall, ...] = ()
    """The calls of a right answer, in any order; without any, a call is wrong."""
    text: tuple[str, ...] = ()
    """Texts; a right answer contains at least one of them."""
    output: JsonObject | None = None
    """The schema of the answer."""
    value: JsonObject | None = None
    """The value that an answer with `output` must have, or a part of it."""
    thinks: bool = False

    @property
    def has_schema(self) -> bool:
        """Whether a right answer contains calls, or JSON of a schema."""
        return bool(self.calls) or self.output is not None

    def request(self, model: str, mode: ToolMode, max_tokens: int) -> Request:
        """Return the request of the task for a mode."""
        system: tuple[Text, ...] = ()
        output = None if self.output is None else OutputFormat(self.output, "answer")
        if output is not None and mode == "prompt":
            schema = msgspec.json.encode(self.output).decode()
            system = (Text(f"Answer with JSON only, valid for this JSON Schema:\n{schema}"),)
            output = None
        return Request(
            model=model,
            system=system,
            turns=self.turns,
            tools=self.tools,
            tool_choice=ToolChoice(),
            max_tokens=max_tokens,
            think=Think(mode="on" if self.thinks else "off"),
            output=output,
            stream=True,
        )


PROGRAM = """def greet(name):
    \"\"\"Say "hello" to somebody.\"\"\"
    print(f'Hello, {name}!\\n')


if __name__ == "__main__":
    greet("world")
"""
SETTINGS = """{
  "name": "demo",
  "paths": ["C:\\\\temp", "/var/tmp"],
  "nested": {"quote": "\\"", "empty": []}
}
"""
PAGE = """# Notes

<section id="first">
  <p>Five & six are > four.</p>
</section>

- `<tool_call>` is a tag
- "quoted", 'single'
"""


def _ask(text: str) -> tuple[Turn, ...]:
    return (Turn("user", (Text(text),)),)


def _after(question: str, name: str, arguments: JsonObject, result: str) -> tuple[Turn, ...]:
    """Return a conversation in which the model has called a tool and got its result."""
    failed = result.startswith("Error:")
    return (
        *_ask(question),
        Turn("assistant", (Call("call_1", name, arguments),)),
        Turn("user", (Result("call_1", (Text(result),), is_error=failed, name=name),)),
    )


def _write(path: str, content: str) -> tuple[Turn, ...]:
    return _ask(f"Write exactly this text to the file {path}:\n\n{content}")


TASKS: tuple[Task, ...] = (
    Task(
        id="weather",
        kind="one-call",
        turns=_ask("What is the weather in Paris right now?"),
        tools=TOOLBOX,
        calls=(WantedCall("get_weather", {"city": "Paris"}),),
    ),
    Task(
        id="read",
        kind="one-call",
        turns=_ask("Show me the file notes/today.md."),
        tools=TOOLBOX,
        calls=(WantedCall("read_file", {"path": "notes/today.md"}),),
    ),
    Task(
        id="search",
        kind="one-call",
        turns=_ask("Search the web for the release notes of llama.cpp."),
        tools=TOOLBOX,
        calls=(WantedCall("search", {"query": "llama.cpp"}),),
    ),
    Task(
        id="two-cities",
        kind="parallel",
        turns=_ask("What is the weather in Berlin and in Rome? Call the tool for both at once."),
        tools=TOOLBOX,
        calls=(
            WantedCall("get_weather", {"city": "Berlin"}),
            WantedCall("get_weather", {"city": "Rome"}),
        ),
    ),
    Task(
        id="three-files",
        kind="parallel",
        turns=_ask("Read the files a.txt, b.txt and c.txt, all in one step."),
        tools=TOOLBOX,
        calls=tuple(WantedCall("read_file", {"path": f"{name}.txt"}) for name in "abc"),
    ),
    Task(
        id="two-tools",
        kind="parallel",
        turns=_ask("In one step, read the file todo.txt and get the weather in Oslo."),
        tools=TOOLBOX,
        calls=(
            WantedCall("read_file", {"path": "todo.txt"}),
            WantedCall("get_weather", {"city": "Oslo"}),
        ),
    ),
    Task(
        id="event",
        kind="nested",
        turns=_ask(
            "Create the event Review on 2026-12-01 at 14:00 with Ada (ada@example.com) and "
            "Bob (bob@example.com)."
        ),
        tools=(EVENT, SEARCH, READ),
        calls=(
            WantedCall(
                "create_event",
                {
                    "title": "Review",
                    "start": {"date": "2026-12-01", "time": "14:00"},
                    "attendees": [{"email": "ada@example.com"}, {"email": "bob@example.com"}],
                },
            ),
        ),
    ),
    Task(
        id="order",
        kind="nested",
        turns=_ask(
            "Order 2 pieces of A-17 and 5 pieces of B-03 for Kim Lee, 12 Main Street, Springfield."
        ),
        tools=(ORDER, SEARCH, READ),
        calls=(
            WantedCall(
                "place_order",
                {
                    "customer": {"name": "Kim Lee", "address": {"city": "Springfield"}},
                    "items": [{"sku": "A-17", "quantity": 2}, {"sku": "B-03", "quantity": 5}],
                },
            ),
        ),
    ),
    Task(
        id="alarm",
        kind="nested",
        turns=_ask("Set an alarm for 06:30 on mon and fri that repeats, at volume 7."),
        tools=(ALARM, WEATHER, SEARCH),
        calls=(
            WantedCall(
                "set_alarm",
                {
                    "time": "06:30",
                    "days": ["mon", "fri"],
                    "options": {"repeat": True, "volume": 7},
                },
            ),
        ),
    ),
    Task(
        id="program",
        kind="long",
        turns=_write("greet.py", PROGRAM),
        tools=TOOLBOX,
        calls=(WantedCall("write_file", {"path": "greet.py", "content": PROGRAM}),),
    ),
    Task(
        id="settings",
        kind="long",
        turns=_write("settings.json", SETTINGS),
        tools=TOOLBOX,
        calls=(WantedCall("write_file", {"path": "settings.json", "content": SETTINGS}),),
    ),
    Task(
        id="page",
        kind="long",
        turns=_write("notes.md", PAGE),
        tools=TOOLBOX,
        calls=(WantedCall("write_file", {"path": "notes.md", "content": PAGE}),),
    ),
    Task(id="greeting", kind="no-call", turns=_ask("Hello! How are you?"), tools=TOOLBOX),
    Task(
        id="sum",
        kind="no-call",
        turns=_ask("What is 2 + 2? Answer with the number."),
        tools=TOOLBOX,
        text=("4", "four"),
    ),
    Task(
        id="thanks",
        kind="no-call",
        turns=_ask("Thank you, that was all I needed today."),
        tools=TOOLBOX,
    ),
    Task(
        id="next-step",
        kind="after-result",
        turns=_after(
            "Search for the user manual, then read the file that the search names.",
            "search",
            {"query": "user manual"},
            "1 page: User manual, stored in the file docs/manual.txt",
        ),
        tools=TOOLBOX,
        calls=(WantedCall("read_file", {"path": "docs/manual.txt"}),),
    ),
    Task(
        id="answer",
        kind="after-result",
        turns=_after(
            "How warm is it in Lima?",
            "get_weather",
            {"city": "Lima"},
            '{"city": "Lima", "temperature": 23, "unit": "celsius"}',
        ),
        tools=TOOLBOX,
        text=("23",),
    ),
    Task(
        id="failed-tool",
        kind="after-result",
        turns=_after(
            "Show me the file report.txt.",
            "read_file",
            {"path": "report.txt"},
            "Error: report.txt does not exist; the file is called reports/2026.txt",
        ),
        tools=TOOLBOX,
        calls=(WantedCall("read_file", {"path": "reports/2026.txt"}),),
    ),
    Task(
        id="person",
        kind="schema",
        turns=_ask("Extract the name and the age: Ada is 36 years old."),
        output=closed_object("name age", name=TEXT, age=NUMBER),
        value={"name": "Ada", "age": 36},
    ),
    Task(
        id="mood",
        kind="schema",
        turns=_ask("Classify the mood of this sentence: I love this place!"),
        output=closed_object("mood", mood={"type": "string", "enum": ["positive", "negative"]}),
        value={"mood": "positive"},
    ),
    Task(
        id="list",
        kind="schema",
        turns=_ask("List the cities in this sentence: From Kyoto we took the train to Osaka."),
        output=closed_object("cities", cities={"type": "array", "items": TEXT}),
        value={"cities": ["Kyoto", "Osaka"]},
    ),
    Task(
        id="think-sum",
        kind="thinking",
        turns=_ask("What is 17 + 25? Think first, then answer with the number."),
        text=("42",),
        thinks=True,
    ),
    Task(
        id="think-order",
        kind="thinking",
        turns=_ask("Tom is taller than Ann, and Ann is taller than Sue. Who is the smallest?"),
        text=("Sue",),
        thinks=True,
    ),
    Task(
        id="think-call",
        kind="thinking",
        turns=_ask("Think about which tool fits, then get the weather in Cairo."),
        tools=TOOLBOX,
        calls=(WantedCall("get_weather", {"city": "Cairo"}),),
        thinks=True,
    ),
)
