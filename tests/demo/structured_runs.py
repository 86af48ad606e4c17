"""Structured streams with the demo model, without sockets: the pure loop and real tools."""

from dataclasses import dataclass, field

from toolbridge.config import StreamConfig
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Request
from toolbridge.demo import answer
from toolbridge.runs.catalog import catalog_of
from toolbridge.runs.request import contract_of, read_request
from toolbridge.store.sqlite import SqliteStore
from toolbridge.structured import events as fe
from toolbridge.structured.conversation import AskRepair, RunTools, StructuredConversation
from toolbridge.tools.context import ToolContext

TERMS = catalog_of(StreamConfig(demo=True))


@dataclass
class Ran:
    events: list[fe.Event] = field(default_factory=list)
    conversation: StructuredConversation | None = None

    @property
    def errors(self) -> list[fe.RunError]:
        return self.of(fe.RunError)

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.of(fe.RunTextDelta))

    def written(self, id: str) -> str:
        deltas = self.of(fe.JsonDelta) + self.of(fe.ResultDelta)
        return "".join(delta.chunk for delta in deltas if delta.id == id)

    @property
    def names(self) -> list[str]:
        names: list[str] = []
        for event in self.events:
            name = fe.name_of(event)
            if not (name.endswith(".delta") and names and names[-1] == name):
                names.append(name)
        return names


async def run(body: dict, results: dict | None = None, tools=TERMS.tools) -> Ran:
    """Converse with the demo model to the end; `results` are those of the caller's own tools."""
    order = read_request(body, {})
    conversation = StructuredConversation(contract_of(order, TERMS, "toolbridge-demo", "sentinel"))
    ran = Ran(conversation=conversation)
    store = SqliteStore()
    try:
        await _converse(conversation, ran, results or {}, tools, store)
    finally:
        await store.close()
    return ran


async def _converse(conversation, ran, results, tools, store) -> None:
    context = ToolContext(run="r", store=store)

    async def fulfil() -> None:
        while (effect := conversation.effect) is not None:
            if isinstance(effect, AskRepair):
                take(conversation.repaired(collect(ask(effect.request)).text))
                continue
            for call in effect.calls:
                if call.client:
                    take(conversation.tool_done(call.id, results.get(call.name)))
                    continue
                outcome = await tools.call(call.name, call.args, context)
                take(
                    conversation.tool_failed(call.id, outcome.code, outcome.message)
                    if outcome.code
                    else conversation.tool_done(call.id, outcome.result)
                )

    def take(outs) -> None:
        ran.events += [out for out in outs if not isinstance(out, RunTools | AskRepair)]

    while (request := conversation.request()) is not None:
        for event in ask(request):
            take(conversation.feed(event))
            await fulfil()
            if not conversation.listening:
                break
        else:
            take(conversation.close())
            await fulfil()


def ask(request: Request):
    return answer(request, Ids("x"))
