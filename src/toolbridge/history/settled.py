"""Links, heals and pairs the calls of a conversation.

These passes depend on one another: the links are the input of the others, and a healed call changes
its result. A part of the conversation whose calls all have their results there is settled whatever
follows, so that the next request of the session continues after it.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from toolbridge.core.messages import Call, Loss, Request, Turn
from toolbridge.core.prefix_memo import PrefixMemo, ends_of
from toolbridge.core.shared_tools import identity_of
from toolbridge.core.steps import EVERY, Steps
from toolbridge.history.call_links import CallLinks, link
from toolbridge.history.pairing import settle
from toolbridge.history.past_calls import Heal, PastCalls, heal_past_calls, with_empty_arguments


class _Settled(msgspec.Struct, frozen=True):
    """The first turns of a conversation as they are sent, and their ids by number of uses.

    The losses of each pass are apart: they are reported pass by pass, in whatever parts the
    conversation was read.
    """

    turns: tuple[Turn, ...] = ()
    healed: tuple[Loss, ...] = ()
    without_arguments: tuple[Loss, ...] = ()
    paired: tuple[Loss, ...] = ()
    seen: dict[str, int] = {}


_NOTHING = _Settled()
_memo: PrefixMemo[_Settled] = PrefixMemo()


def settled_turns(
    request: Request,
    order: Literal["calls", "client", "loose"],
    heal: Heal | None,
    losses: list[Loss],
    *,
    text: bool,
) -> Steps[Sequence[Turn]]:
    """Return the turns with healed calls, and each result after its call (see `pairing.settle`).

    `text` is True for an API that takes arguments which are not an object as they are.
    """
    turns = request.turns
    pause = (None,) if len(turns) >= EVERY else ()
    context = (order, heal, text, identity_of(request.tools))
    done, known = _memo.find(turns, context) or (0, _NOTHING)
    for end in ends_of(turns, done):
        seen = known.seen.copy()
        links = link(turns, range(done, end), seen)
        if end < len(turns) and not _is_closed(turns, links):
            continue
        yield from pause
        healed, empty, paired = [*known.healed], [*known.without_arguments], [*known.paired]
        past = heal_past_calls(request, links, heal, healed) if heal else PastCalls()
        past = with_empty_arguments(past, links, empty, text=text)
        yield from pause
        settled = settle(turns, links, past, paired, order)
        known = _Settled((*known.turns, *settled), tuple(healed), tuple(empty), tuple(paired), seen)
        _memo.keep(turns, end, context, known)
        done = end
    losses += known.healed
    losses += known.without_arguments
    losses += known.paired
    return known.turns


def _is_closed(turns: Sequence[Turn], links: CallLinks) -> bool:
    """Return whether nothing after the linked turns changes them: all calls have their results."""
    last = turns[links.numbers[-1]]
    answered = len(links.calls) == len(links.result_of)
    return answered and not any(isinstance(part, Call) for part in last.content)
