"""The law of layers: how many Python functions one delta passes through, end to end.

A delta costs what is called for it. The count is the same on every machine, so a layer that is
added to the path of every delta fails here, and not in somebody's benchmark.
"""

import itertools

from tests.structured import play
from tests.tables import every_row
from tests.work import python_calls_made

from toolbridge import codecs
from toolbridge.accounting.cost import Pricing, Rates
from toolbridge.core.codec import AnswerContext, Target
from toolbridge.core.draft import Draft
from toolbridge.core.fold import Fold
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Request, Text, Tool, Turn
from toolbridge.core.stage import Identity, StageChain
from toolbridge.dialects.gate import ThoughtGate
from toolbridge.policy.answer_stages import AnswerStages
from toolbridge.runs.log import EventLog, run_place
from toolbridge.server.streaming import TranslatedWriter
from toolbridge.store.sqlite import SqliteStore
from toolbridge.structured.conversation import StructuredConversation
from toolbridge.translate import RequestOptions, answer_stages, plan

TEXT_MOST = {
    "ollama": 22, "openai_chat": 24, "anthropic": 33, "gemini": 34, "openai_responses": 36,
}  # fmt: skip
"""By the API of the provider; the API of the client adds little. Measured, and a tenth more."""
STRUCTURED_MOST = 60
BEGINNING_MOST = 350
"""From the request to the second delta of its answer, with every cache warm."""

WARM, COUNTED = 20, 40
WORDS = (
    " I", " read", " the", " file", " and", " then", " it", " is", " time", " to", " write", " one.",
)  # fmt: skip
"""Tokens as models write them; ` to` is held back, for it may begin the mark of a dialect."""
NAME = "mcp.files/read_" + "x" * 70
"""No API takes this name, so every answer passes through the stage that gives it back."""
TOOLS = tuple(
    Tool(name, "", {"type": "object", "properties": {"path": {"type": "string"}}})
    for name in (NAME, "list")
)
PAIRS = [*itertools.product(codecs.names(), codecs.names())]


def deltas_of(api, size):
    """Return the bytes of an answer in the API `api`, one piece for each of its deltas."""
    encoder = codecs.load(api).stream_encoder(AnswerContext(Request("m", stream=True)))
    draft = Draft(Ids("upstream"))
    before = [draft.start(id="msg_1", model="m"), draft.text("Well,")]
    begin = b"".join(piece for events in before for e in events for piece in encoder.feed(e))
    words = itertools.islice(itertools.cycle(WORDS), size)
    return begin, [b"".join(encoder.feed(e)[0] for e in draft.text(word)) for word in words]


class Gateway:
    """What the gateway does with the bytes of an answer, without its sockets."""

    def __init__(self, client, upstream, *, layers=0):
        turns = (Turn("user", (Text("Hi"),)),)
        request = Request("m", turns=turns, tools=TOOLS, stream=True, origin=client)
        codec = codecs.load(upstream)
        ready = plan(request, codec, Target("qwen3", "p"), RequestOptions())
        self._decoder = codec.stream_decoder(Ids("answer"))
        self._stages = answer_stages(request, ready, model="qwen3", seed=b"seed")
        pricing = Pricing("m", "p", Rates(input=1.0, output=2.0), at=0.0)
        self._rest = StageChain([pricing, *(Identity() for _ in range(layers))])
        self._fold = Fold()
        asked = AnswerContext(request, at=1.0)
        self._writer = TranslatedWriter(codecs.load(client).stream_encoder(asked))

    def feed(self, piece):
        batch = self._rest.feed_all(self._stages.feed_all(self._decoder.feed(piece)))
        self._fold.feed_all(batch)
        return self._writer.write(batch)


def calls_per_delta(feed, begin, deltas):
    feed(begin)
    for piece in deltas[:WARM]:
        feed(piece)
    counted = deltas[WARM:]
    written = []
    calls = python_calls_made(lambda: [written.append(feed(piece)) for piece in counted])
    assert sum(map(bool, written)) >= 0.9 * len(written), "deltas were held back"
    return calls / len(counted)


@every_row(("client", "upstream"), PAIRS)
def test_a_text_delta_passes_through_few_functions(client, upstream):
    begin, deltas = deltas_of(upstream, WARM + COUNTED)
    most = TEXT_MOST[upstream]
    assert calls_per_delta(Gateway(client, upstream).feed, begin, deltas) <= most


def test_the_law_can_fail():
    begin, deltas = deltas_of("openai_chat", WARM + COUNTED)
    now, more = (
        calls_per_delta(Gateway("anthropic", "openai_chat", layers=n).feed, begin, deltas)
        for n in (0, 10)
    )
    assert more > now + 8
    assert more > TEXT_MOST["openai_chat"]


def test_an_answer_begins_without_building_what_all_answers_share():
    begin, deltas = deltas_of("openai_chat", 1)

    def answer():
        gateway = Gateway("anthropic", "openai_chat")
        gateway.feed(begin)
        gateway.feed(deltas[0])

    answer()
    assert python_calls_made(answer) <= BEGINNING_MOST


class Run:
    """What a structured stream does with the bytes of an answer, up to its numbered events."""

    def __init__(self):
        self._decoder = codecs.load("openai_chat").stream_decoder(Ids("answer"))
        self._stages = AnswerStages([ThoughtGate()], ())
        self._conversation = StructuredConversation(play.contract())
        self._conversation.request()
        self._log = EventLog(run_place(SqliteStore(None), "", "run"))

    def feed(self, piece):
        events = self._stages.feed_all(self._decoder.feed(piece))
        outs = [out for event in events for out in self._conversation.feed(event)]
        return b"".join([self._log.add(out).data for out in outs])


def test_a_structured_delta_passes_through_few_functions():
    encoder = codecs.load("openai_chat").stream_encoder(AnswerContext(Request("m", stream=True)))
    draft = Draft(Ids("upstream"))

    def piece(text):
        return b"".join(found for event in draft.text(text) for found in encoder.feed(event))

    begin = piece('\u27e6BEGIN_RESULT id=R1 schema=AssistantReply\u27e7{"answer":"')
    deltas = [piece(f"word {number} ") for number in range(WARM + COUNTED)]
    assert calls_per_delta(Run().feed, begin, deltas) <= STRUCTURED_MOST
