"""What one request of the run does: who asks whom for what, and what goes wrong on the way."""

import random
from dataclasses import dataclass, field

from toolbridge import codecs
from toolbridge.core.codec import AnswerContext
from toolbridge.core.draft import Draft
from toolbridge.core.events import Event
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Message, Request, Tool
from toolbridge.core.usage import Usage

APIS = ("anthropic", "openai_chat", "openai_responses", "gemini", "ollama")
WATCHED = ("anthropic", "openai_chat", "openai_responses", "gemini")
"""APIs whose first-party provider gets its bytes passed through."""
WORDS = (
    "lorem",
    "ipsum",
    "größe",
    "東京",
    "👩‍🚀",
    "…",
    "\n",
    "a<b>&c",
    '"quoted"',
    "\\",
    "{}",
    "42",
)

RECOVERED = ("busy", "hangs_up", "stale")
"""Faults before the first content: the gateway asks again, and the client notices nothing."""
BROKEN = ("cut", "reset", "unfinished", "error", "page", "half_json")
"""Faults that cannot be mended: the client must get an error."""
WEIGHTS = {
    "none": 48, "slow": 5, "busy": 6, "hangs_up": 6, "stale": 6, "cut": 6, "reset": 3,
    "unfinished": 6, "error": 3, "page": 3, "half_json": 3, "leaves": 5,
}  # fmt: skip


@dataclass
class Play:
    mark: str
    surface: str
    upstream: str
    passthrough: bool
    stream: bool
    fault: str
    message: Message
    events: list[Event]
    pause: float = 0.0
    cut: float = 0.5
    """How much of the answer is sent before a fault, as a fraction."""
    attempts: int = 0
    under_way: int = 0
    """Upstream exchanges that have begun and not ended."""
    tools: tuple[Tool, ...] = ()
    faults: list[str] = field(default_factory=list)

    @property
    def model(self) -> str:
        return f"{'w' if self.passthrough else 'p'}_{self.upstream}/soak"

    @property
    def pair(self) -> str:
        arrow = "=>" if self.passthrough else "->"
        return f"{self.surface}{arrow}{self.upstream}"

    def frames(self) -> list[bytes]:
        """Return the upstream's answer as a stream, one piece per event of its API."""
        encoder = codecs.load(self.upstream).stream_encoder(self._asked())
        found = [piece for event in self.events for piece in encoder.feed(event)]
        return [*found, *encoder.close()]

    def body(self) -> bytes:
        return codecs.load(self.upstream).encode_message(self.message, self._asked())

    def _asked(self) -> AnswerContext:
        extra = (
            {"stream_options": {"include_usage": True}} if self.upstream == "openai_chat" else {}
        )
        request = Request("soak", stream=self.stream, tools=self.tools, extra=extra)
        return AnswerContext(request, at=1_763_200_000.0)


TOOL = Tool(
    "look_up",
    "Looks something up.",
    {
        "type": "object",
        "properties": {"key": {"type": "string"}, "deep": {"type": "object"}},
        "required": ["key"],
    },
)


def plays(count: int, seed: int) -> list[Play]:
    dice = random.Random(seed)
    return [_play(dice, f"soak-{number:08x}") for number in range(count)]


def _play(dice: random.Random, mark: str) -> Play:
    surface = dice.choice(APIS)
    # Half of the traffic has the same API on both sides: that is what most users have.
    upstream = surface if dice.random() < 0.5 else dice.choice(APIS)
    passthrough = surface == upstream and upstream in WATCHED and dice.random() < 0.5
    fault = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    stream = dice.random() < 0.7
    if fault in {"cut", "reset", "unfinished", "error", "leaves"}:
        stream = True
    if fault == "half_json":
        stream = False
    calls = dice.random() < 0.4
    events = _answer(dice, mark, calls=calls)
    return Play(
        mark, surface, upstream, passthrough, stream, fault, collect(events), events,
        pause=dice.choice((0.0, 0.0, 0.0, 0.002)), cut=dice.uniform(0.3, 0.9),
        tools=(TOOL,) if calls or dice.random() < 0.5 else (),
    )  # fmt: skip


def _answer(dice: random.Random, mark: str, *, calls: bool) -> list[Event]:
    draft = Draft(Ids(mark))
    told = draft.start(model="soak")
    for _ in range(dice.randint(2, 25)):
        told += draft.text(" ".join(dice.choices(WORDS, k=dice.randint(1, 4))) + " ")
    told += draft.text(mark)
    if calls:
        for number in range(dice.randint(1, 2)):
            told += draft.call(number, name=TOOL.name)
            told += draft.arguments(number, f'{{"key": "{mark}-{number}", ')
            told += draft.arguments(number, '"deep": {"a": [1, 2, {"b": null}]}}')
            told += draft.end(number)
    told += draft.end()
    told += draft.usage(Usage(input=11, output=7))
    return told + draft.finish("tool_use" if calls else "end")
