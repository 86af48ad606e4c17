"""The one pass that makes any transcript legal for its target.

A transcript that is legal already comes back equal, and a second pass changes nothing: a model
server finds its cached prefix again only when the same past always becomes the same bytes.
"""

from typing import Literal

import msgspec

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Loss, Request
from toolbridge.history import roles
from toolbridge.history.call_links import link
from toolbridge.history.empty import without_empty_text
from toolbridge.history.ids import legal_ids
from toolbridge.history.names import legal_names
from toolbridge.history.pairing import settle
from toolbridge.history.past_calls import Heal, PastCalls, mend
from toolbridge.history.sequence import one_at_a_time

__all__ = ["Heal", "Prepared", "prepare"]


class Prepared(msgspec.Struct, frozen=True):
    request: Request
    losses: tuple[Loss, ...]
    names: dict[str, str]
    """The target's name of a tool to the client's own, for every tool that had to be renamed."""


def prepare(
    request: Request,
    rules: Rules,
    *,
    sequential: bool = False,
    heal: Heal | None = None,
    same_api: bool = False,
) -> Prepared:
    """Return `request` as its target accepts it.

    `sequential` tells parallel calls of the past one after the other. `heal` mends the inputs of
    past calls; without it the past stays as the model wrote it. What goes to the `same_api` keeps
    the order of its results and the bounds of its messages.
    """
    losses: list[Loss] = []
    links = link(request.turns)
    past = mend(request, links, heal, losses) if heal else PastCalls()
    order: Literal["calls", "client", "loose"] = "client" if same_api else "calls"
    if not rules.pairs:
        order = "loose"
    turns = settle(request.turns, links, past, losses, "calls" if sequential else order)
    if sequential:
        turns = one_at_a_time(turns)
    system = request.system
    if not rules.empty_text:
        turns, system = without_empty_text(turns, system)
    if not rules.system_in_place:
        turns = roles.fold_system(turns, losses)
    if rules.alternate:
        # A client that repeats a role in its own API has its reason, and its API takes it.
        turns = roles.begin_with_user(turns if same_api else roles.merge(turns))
    turns = roles.finish(turns, request.turns, rules, losses)
    turns = legal_ids(turns, rules)
    legal = msgspec.structs.replace(request, turns=tuple(turns), system=system)
    legal, names = legal_names(legal, rules)
    return Prepared(legal, tuple(losses), names)
