"""Makes the roles of a conversation valid.

Anthropic and Gemini: the first message is the user's, and roles alternate. Gemini and Claude 4.6 and
later reject a conversation that ends with the assistant (prefill). Only some models accept system
messages after the first user message.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Foreign, Loss, Part, Text, Turn
from toolbridge.history.empty import ADDED, FULL_STOP

_OPEN, _CLOSE = "<system-reminder>", "</system-reminder>"


def fold_system(turns: Sequence[Turn], rules: Rules, losses: list[Loss]) -> Sequence[Turn]:
    """Return `turns` with system turns as user turns, marked as `<system-reminder>`.

    They keep their position: moved into the system prompt, each would change the cached prefix.
    Where the target accepts system turns, only those at a wrong position are folded.
    """
    if not any(turn.role == "system" for turn in turns):
        return turns
    if rules.system_in_place:
        return _fold(turns, [_misplaced(turns, number) for number in range(len(turns))], losses)
    return _fold(turns, [turn.role == "system" for turn in turns], losses)


def _misplaced(turns: Sequence[Turn], number: int) -> bool:
    if turns[number].role != "system":
        return False
    before = next((turn.role for turn in reversed(turns[:number]) if turn.role != "system"), "")
    after = next((turn.role for turn in turns[number:] if turn.role != "system"), "assistant")
    return before != "user" or after != "assistant"


def _fold(turns: Sequence[Turn], chosen: list[bool], losses: list[Loss]) -> Sequence[Turn]:
    folded = sum(chosen)
    if not folded:
        return turns
    # Claude Code sends many of these with every request: one loss for all of them.
    why = "a system message inside the conversation is sent as a user message, marked as a reminder"
    losses.append(Loss("turns", f"{why} ({folded})" if folded > 1 else why))
    return [
        Turn("user", _reminder(turn.content)) if fold else turn
        for turn, fold in zip(turns, chosen, strict=True)
    ]


def _reminder(content: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts of a reminder, without the fields that only a system message has."""
    kept = (part for part in content if not isinstance(part, Foreign) or part.kind != "message")
    return tuple(_marked(part) if isinstance(part, Text) else part for part in kept)


def _marked(part: Text) -> Text:
    if part.text.lstrip().startswith(_OPEN):
        return part
    return replace(part, text=f"{_OPEN}\n{part.text}\n{_CLOSE}")


def merge(turns: Sequence[Turn]) -> list[Turn]:
    """Return `turns` with consecutive turns of one role joined."""
    merged: list[Turn] = []
    run: list[Turn] = []
    for turn in turns:
        if run and run[-1].role != turn.role:
            merged.append(_joined(run))
            run = []
        run.append(turn)
    return [*merged, _joined(run)] if run else merged


def _joined(run: list[Turn]) -> Turn:
    if len(run) == 1:
        return run[0]
    return Turn(run[0].role, tuple(part for turn in run for part in turn.content))


def begin_with_user(turns: Sequence[Turn]) -> Sequence[Turn]:
    """Return `turns` with a user turn first: a full stop is added before an assistant turn."""
    first = next((n for n, turn in enumerate(turns) if turn.role != "system"), None)
    if first is None or turns[first].role == "user":
        return turns
    return [*turns[:first], FULL_STOP, *turns[first:]]


def finish(
    turns: Sequence[Turn],
    original: Sequence[Turn],
    rules: Rules,
    losses: list[Loss],
    *,
    same_api: bool = False,
) -> Sequence[Turn]:
    """Return `turns` with an end that the target accepts."""
    if not turns:
        # OpenAI Responses: with a stored prompt or conversation, its clients need no input.
        if not original and (same_api or not rules.needs_turn):
            return turns
        losses.append(Loss("turns", ADDED))
        return [FULL_STOP]
    if turns[-1].role != "assistant":
        if turns[-1].content or not rules.needs_turn:
            return turns
        losses.append(Loss("turns", ADDED))
        return [*turns[:-1], FULL_STOP]
    if original[-1].role == "assistant":
        if rules.may_end_with_assistant:
            return turns
        why = 'the target does not continue an assistant message: "Continue." is added'
        losses.append(Loss(f"turns.{len(original) - 1}", why))
    return [*turns, Turn("user", (Text("Continue."),))]
