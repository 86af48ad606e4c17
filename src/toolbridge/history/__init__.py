"""Makes a conversation valid for the API that receives it.

Each API has rules about the messages of a request: Anthropic needs every `tool_use` answered in the
next user message, OpenAI limits ids and tool names, Gemini needs alternating roles. Clients that
compact, interrupt or switch models send conversations that break them. `prepare` applies the passes
of this package in order; each module names the rule it satisfies. A valid conversation is returned
unchanged and equal input gives equal output, because model servers cache prompts by their prefix.
"""

from collections.abc import Sequence
from operator import is_
from typing import Literal

import msgspec

from toolbridge.core.codec import Rules
from toolbridge.core.messages import (
    Call,
    Foreign,
    Loss,
    Part,
    Reference,
    Request,
    Result,
    Text,
    Turn,
)
from toolbridge.core.steps import EVERY, Steps, stepwise
from toolbridge.history import roles
from toolbridge.history.empty import without_empty_text
from toolbridge.history.ids import legal_ids
from toolbridge.history.names import legal_names, names_fit
from toolbridge.history.own_fields import with_readable_parts
from toolbridge.history.past_calls import Heal
from toolbridge.history.sequence import one_at_a_time
from toolbridge.history.settled import settled_turns
from toolbridge.history.traits import traits_of

__all__ = ["Heal", "Prepared", "prepare"]


class Prepared(msgspec.Struct, frozen=True):
    """A request that its target accepts, with the losses."""

    request: Request
    losses: tuple[Loss, ...]
    names: dict[str, str]
    """The client's name of each renamed tool, by the name that is sent."""


@stepwise
def prepare(
    request: Request,
    rules: Rules,
    *,
    sequential: bool = False,
    heal: Heal | None = None,
    same_api: bool = False,
    kinds: frozenset[type[Part]] | None = None,
) -> Steps[Prepared]:
    """Return `request` as its target accepts it.

    `sequential` splits parallel calls into one call per turn. `heal` corrects the arguments of past
    calls; without it they stay as the model wrote them. With `same_api`, results keep the client's
    order and messages of the same role stay separate. `kinds` are the types of the parts, where they
    are known; types that no part has do no harm.
    """
    losses: list[Loss] = []
    pause = (None,) if len(request.turns) >= EVERY else ()
    kinds = traits_of(request.turns).kinds if kinds is None else kinds
    if not same_api and Foreign in kinds:
        request = with_readable_parts(request)
    turns: Sequence[Turn] = request.turns
    system = request.system
    has_calls = not kinds.isdisjoint(_CALLS)
    if has_calls:
        kept: Literal["calls", "client"] = "client" if same_api else "calls"
        order: Literal["calls", "client", "loose"] = kept if rules.pairs else "loose"
        order = "calls" if sequential else order
        text = rules.text_arguments
        turns = yield from settled_turns(request, order, heal, losses, text=text)
        yield from pause
        turns = one_at_a_time(turns) if sequential else turns
    if not rules.empty_text:
        turns, system = without_empty_text(turns, system, losses)
    yield from pause
    if not rules.system_in_place or (rules.system_after_user and not same_api):
        turns = roles.fold_system(turns, rules, losses)
    if rules.alternate:
        # Anthropic merges consecutive messages of one role itself, so its clients may send them.
        turns = roles.begin_with_user(turns if same_api else roles.merge(turns))
    if not turns or turns[-1].role == "assistant" or not turns[-1].content:
        turns = roles.finish(turns, request.turns, rules, losses, same_api=same_api)
    yield from pause
    if has_calls:
        turns = legal_ids(turns, rules)
        yield from pause
    if turns is not request.turns or system is not request.system:
        request = _with_turns(request, tuple(turns), system)
    named = has_calls or bool(request.tool_choice.names) or Reference in kinds
    if not named and (not request.tools or names_fit(request.tools, rules)):
        return Prepared(request, tuple(losses), {})
    legal, names = legal_names(request, rules)
    return Prepared(legal, tuple(losses), names)


_CALLS = frozenset({Call, Result})


def _with_turns(request: Request, turns: tuple[Turn, ...], system: tuple[Text, ...]) -> Request:
    """Return `request` with other turns; itself for the same objects, as equal ones may differ."""
    same = len(turns) == len(request.turns) and all(map(is_, turns, request.turns))
    if same and system == request.system:
        return request
    return msgspec.structs.replace(request, turns=turns, system=system)
