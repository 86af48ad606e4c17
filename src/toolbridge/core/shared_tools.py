"""Tools of a request, with the values that were derived from them.

An agent sends the same tools with every request of a session. A decoder that has read the same JSON
before returns the same `SharedTools`, and functions marked `once_per_list` keep their results in it:
token counts, encoded tools, names. A `SharedTools` and everything derived from it are shared between
requests, so nothing may change them.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from toolbridge.core.byte_memo import ByteMemo
from toolbridge.core.messages import Tool

P = ParamSpec("P")
V = TypeVar("V")

MOST_BYTES = 8 * 1024 * 1024
"""The JSON of the tools that one decoder keeps; fifteen tools of a coding agent have about 60 KB."""
_MOST_DERIVED = 64
"""The values that one list keeps; a function has one for each target and option."""


class SharedTools(tuple[Tool, ...]):  # noqa: SLOT001  a tuple can only have a dict
    """A tuple of tools that keeps what is derived from it."""

    derived: dict[tuple[object, ...], object]


def shared_tools(tools: Sequence[Tool]) -> SharedTools:
    """Return `tools` as a list that keeps what is derived from it."""
    made = SharedTools(tools)
    made.derived = {}
    return made


NO_TOOLS = shared_tools(())
"""The tools of a request without any."""


def once_per_list(
    function: Callable[Concatenate[tuple[Tool, ...], P], V],
) -> Callable[Concatenate[tuple[Tool, ...], P], V]:
    """Return `function` with its results kept in the list that is its first argument.

    Its other arguments are hashable and positional. For a plain tuple nothing is kept.
    """

    @wraps(function)
    def call(tools: tuple[Tool, ...], /, *args: P.args, **kwargs: P.kwargs) -> V:
        if not isinstance(tools, SharedTools):
            return function(tools, *args, **kwargs)
        derived, key = tools.derived, (function, *args)
        if key in derived:
            found: V = derived[key]  # type: ignore[assignment]  # of this function
            return found
        if len(derived) >= _MOST_DERIVED:
            derived.clear()
        made = function(tools, *args, **kwargs)
        derived[key] = made
        return made

    return call


@once_per_list
def identity_of(tools: tuple[Tool, ...]) -> object:  # noqa: ARG001  the key of the result
    """Return a value that only this list of tools has; a plain tuple has another one each time.

    Keys contain it in place of the tools, whose schemas have no hash.
    """
    return object()


class ToolTraits(msgspec.Struct, frozen=True):
    """Which kinds of tools a list has, so that passes for the others are left out."""

    hosted: bool
    """Whether a tool is run by the provider of its API."""
    deferred: bool
    """Whether a tool may be called only after a search has found it."""


@once_per_list
def tool_traits(tools: tuple[Tool, ...]) -> ToolTraits:
    """Return the traits of a list of tools."""
    return ToolTraits(
        hosted=any(tool.hosted is not None for tool in tools),
        deferred=any(tool.deferred for tool in tools),
    )


NO_TRAITS = ToolTraits(hosted=False, deferred=False)
"""The traits of a request without tools."""


def decoded_once(
    decode: Callable[[Sequence[msgspec.Raw]], Sequence[Tool]],
) -> Callable[[Sequence[msgspec.Raw] | None], tuple[Tool, ...]]:
    """Return `decode` with the same list for the same JSON."""
    memo: ByteMemo[bytes, SharedTools] = ByteMemo(MOST_BYTES)

    @wraps(decode)
    def call(given: Sequence[msgspec.Raw] | None) -> tuple[Tool, ...]:
        if not given:
            return NO_TOOLS
        key = b",".join(given)
        found = memo.get(key)
        if found is None:
            # A `Raw` of a decoder refers to the whole body; a copy has its own bytes.
            found = shared_tools(decode([raw.copy() for raw in given]))
            memo.put(key, found)
        return found

    return call
