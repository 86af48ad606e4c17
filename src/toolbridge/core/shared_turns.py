"""Values that follow from one turn alone, kept in the turn.

A decoder that has read the same message before returns the same `Turn` (`core/byte_memo.py`), so a
function marked `once_per_turn` is computed once in a session and not once in each of its requests.
A turn and everything derived from it are shared between requests, so nothing may change them.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from toolbridge.core.messages import Turn

P = ParamSpec("P")
V = TypeVar("V")

_MOST_DERIVED = 16
"""The values that one turn keeps; a function has one for each target."""


def once_per_turn(
    function: Callable[Concatenate[Turn, P], V],
) -> Callable[Concatenate[Turn, P], V]:
    """Return `function` with its results kept in the turn that is its first argument.

    Its other arguments are hashable and positional.
    """

    @wraps(function)
    def call(turn: Turn, /, *args: P.args, **kwargs: P.kwargs) -> V:
        derived: dict[object, object] = turn.__dict__  # type: ignore[assignment]  # of names
        key = (function, *args)
        found = derived.get(key, derived)
        if found is not derived:
            kept: V = found  # type: ignore[assignment]  # of this function
            return kept
        if len(derived) >= _MOST_DERIVED:
            derived.clear()
        made = function(turn, *args, **kwargs)
        derived[key] = made
        return made

    return call
