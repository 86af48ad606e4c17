"""What fits into a model."""

from toolbridge.core.errors import Overflow

DEFAULT_OUTPUT = 32_000
LEAST_OUTPUT = 256
"""What an answer may always have: the count of the prompt is an estimate, and a model that is
allowed one token says nothing."""
DOUBT = 1.15
"""How far a count that no usage has confirmed may be off."""


def output_limit(asked: int | None, *, max_output: int, window: int, prompt: int) -> int | None:
    """Return how many tokens the answer may have, or None to leave that to the model.

    Zero means unknown for `max_output` and `window`. Clients that do not know the model ask for
    more than it can write, or for more than its window has left.
    """
    limit = asked
    if limit is None:
        if not max_output:
            return None
        limit = min(max_output // 3, DEFAULT_OUTPUT)
    if max_output:
        limit = min(limit, max_output)
    if window:
        limit = min(limit, max(window - prompt, LEAST_OUTPUT))
    return max(1, limit)


def check_window(prompt_tokens: int, window: int, reserve: int = 0, *, sure: bool = True) -> None:
    """Raise `Overflow` when the prompt leaves no room for `reserve` tokens of answer.

    A count that is not `sure` gets the benefit of the doubt: the provider counts again. Claude Code
    compacts its conversation when it reads these very words.
    """
    room = max(0, window - reserve)
    if window and prompt_tokens > room * (1 if sure else DOUBT):
        raise Overflow(f"prompt is too long: {prompt_tokens} tokens > {room} maximum")


def was_truncated(estimated: int, reported: int, window: int) -> bool:
    """Whether a server has cut the prompt in silence, as Ollama does.

    It cuts to the window or to half of it, and counts what is left. The estimate may be a fifth
    off, so it must be well above the window before we say so.
    """
    if window <= 0 or reported <= 0 or estimated <= window * 1.25:
        return False
    share = reported / window
    return 0.9 <= share <= 1.05 or 0.45 <= share <= 0.55
