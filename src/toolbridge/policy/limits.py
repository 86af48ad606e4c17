"""Limits of a model: its context window and its output tokens.

The gateway checks a prompt before it is sent, because some servers (Ollama) truncate one that is
too long without an error.
"""

from toolbridge.core.errors import Overflow

DEFAULT_OUTPUT = 32_000
LEAST_OUTPUT = 256
"""Output tokens that are always allowed: the prompt's count is an estimate, and an answer of one
token is useless."""
DOUBT = 1.15
"""The factor by which an estimate without calibration may be too high."""


def output_limit(asked: int | None, *, max_output: int, window: int, prompt: int) -> int | None:
    """Return the limit of output tokens, or None for the provider's own default.

    Zero means unknown for `max_output` and `window`. Clients that do not know the model ask for
    more than its maximum, or for more than the prompt leaves of the window; both are errors at
    Anthropic (Messages API, `max_tokens`) and vLLM.
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
    """Raise `Overflow` when the prompt and `reserve` output tokens exceed the window.

    A count that is not `sure` must exceed it by the factor `DOUBT`. The text is Anthropic's: Claude
    Code compacts its conversation when an error begins with "prompt is too long".
    """
    room = max(0, window - reserve)
    if window and prompt_tokens > room * (1 if sure else DOUBT):
        raise Overflow(f"prompt is too long: {prompt_tokens} tokens > {room} maximum")


def was_truncated(estimated: int, reported: int, window: int) -> bool:
    """Return whether a server has truncated the prompt without an error, as Ollama does.

    Ollama truncates to the window or to half of it, and reports the count of the rest. The estimate
    may be off by a fifth, so it must exceed the window by a quarter.
    """
    if window <= 0 or reported <= 0 or estimated <= window * 1.25:
        return False
    share = reported / window
    return 0.9 <= share <= 1.05 or 0.45 <= share <= 0.55
