"""Long computations in steps.

A request of a coding agent may have hundreds of kilobytes, and decoding and preparing it takes
milliseconds. The functions that do so are generators: at each `yield` their caller may run something
else. `stepwise` makes an ordinary function of such a generator for callers that need the result at
once. The server takes the steps itself (`routing/loop_turns.py`).
"""

from collections.abc import Callable, Generator
from functools import update_wrapper
from typing import Generic, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

EVERY = 8
"""Messages between two pauses. A conversation of fewer messages has none, because a pause resumes
every generator around it."""

Steps: TypeAlias = Generator[None, None, T]
"""A computation that pauses at each `yield` and returns its result."""


def finish(steps: Steps[T]) -> T:
    """Take all steps at once; return the result."""
    results: list[T] = []
    for _ in _with_result(steps, results):
        pass
    return results[0]


def _with_result(steps: Steps[T], results: list[T]) -> Steps[None]:
    """Take the steps, and append the result: without an exception, which takes longer."""
    results.append((yield from steps))


class Stepwise(Generic[P, T]):
    """A function whose computation can also be taken in steps."""

    def __init__(self, steps: Callable[P, Steps[T]]) -> None:
        self.steps = steps
        update_wrapper(self, steps)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        results: list[T] = []
        # As `finish`: small requests come this way, and a call less is measurable.
        for _ in _with_result(self.steps(*args, **kwargs), results):
            pass
        return results[0]


def stepwise(steps: Callable[P, Steps[T]]) -> Stepwise[P, T]:
    """Return the function that takes all steps of a call at once."""
    return Stepwise(steps)


def steps_of(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
    """Call `function` in its steps; in one step if it has none."""
    if isinstance(function, Stepwise):
        result: T = yield from function.steps(*args, **kwargs)
        return result
    return function(*args, **kwargs)
