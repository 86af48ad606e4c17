"""The loop guard: a model that repeats one call with the same arguments and gets the same result.

Agents without a human at the keyboard repeat such a call until the budget is gone. After `most`
repetitions in a row (the setting `loop_guard`) the model gets a note at the end of the conversation;
after twice as many the request is an error. Calls are compared in the order of the conversation; a
call without a result, another call or another result in between ends the row.
"""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from toolbridge.core.errors import LoopDetected
from toolbridge.core.json import dumps
from toolbridge.core.messages import Call, Loss, Request, Result, Text, Turn

_Outcome: TypeAlias = tuple[str, str, bytes]
"""The name, the arguments and the result of a call."""


def break_loop(request: Request, most: int) -> tuple[Request, tuple[Loss, ...]]:
    """Return the request, with a note if it ends in a loop of `most` calls, and the change.

    Raise `LoopDetected` for a loop of twice as many. Zero turns the guard off.
    """
    if most < 1 or not request.turns or request.turns[-1].role != "user":
        return request, ()
    name, count = last_repeats(request.turns)
    if count >= 2 * most:
        raise LoopDetected(
            f"{name} was called {count} times in a row with the same arguments and the same result; "
            f"the request was stopped after {2 * most} (`loop_guard = {most}`). Give the model other "
            "instructions, or raise the setting"
        )
    if count < most:
        return request, ()
    note = (
        f"Note from the gateway: {name} was called {count} times in a row with the same arguments, "
        "and the result was the same each time. Calling it again will not change the result. Use "
        "other arguments or another tool, or explain what blocks you."
    )
    last = request.turns[-1]
    noted = Turn(last.role, (*last.content, Text(note)))
    why = f"a note for the model was added: {name} was called {count} times with the same result"
    loss = Loss(f"turns.{len(request.turns) - 1}", why)
    return msgspec.structs.replace(request, turns=(*request.turns[:-1], noted)), (loss,)


def last_repeats(turns: Iterable[Turn]) -> tuple[str, int]:
    """Return the name of the last call, and how often it was repeated in a row."""
    calls: dict[str, Call] = {}
    last: _Outcome | None = None
    count = 0
    for turn in turns:
        for part in turn.content:
            if isinstance(part, Call):
                calls[part.id] = part
            elif isinstance(part, Result) and (call := calls.pop(part.call_id, None)) is not None:
                found = _outcome(call, part)
                last, count = found, count + 1 if found == last else 1
    if calls or last is None:  # the last call has no result yet
        return "", 0
    return last[0], count


def _outcome(call: Call, result: Result) -> _Outcome:
    arguments = call.raw or dumps(dict(sorted(call.arguments.items())))
    # Marks of prompt caches and positions in the client's JSON move from request to request.
    parts = [msgspec.structs.replace(part, source=None) for part in result.content]
    bare = [msgspec.structs.replace(p, cache="") if isinstance(p, Text) else p for p in parts]
    return call.name, arguments, msgspec.json.encode([result.is_error, bare])
