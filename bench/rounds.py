"""Interleaved rounds of one scenario over several targets, and their medians and ratios.

Rounds alternate between the targets, so that the load of the machine changes all of them. A ratio
is taken within each round, and the median of these ratios is the figure. A round in which the host
of a virtual machine took CPU time away is repeated
(docs/decisions/0052-what-the-bench-compares.md).
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from bench.processes import HostTime
from bench.scenarios import Figures

REFERENCE = "nginx"
QUIET = 0.02
"""The share of the CPU time that the host may take from a round that counts."""
Samples = dict[str, list[Figures]]


class Named(Protocol):
    @property
    def name(self) -> str: ...


Measured = TypeVar("Measured", bound=Named)


def interleaved(
    targets: Sequence[Measured],
    measure: Callable[[Measured, int], Figures],
    count: int,
    host: Callable[[], HostTime] = HostTime.now,
) -> Samples:
    """Return the figures of `count` rounds for each target, the order reversed in every second.

    A round that was disturbed is repeated, up to `count` times in all. The figures of a target have
    the share of the CPU time that the host took as `taken`.
    """

    def measured(target: Measured, number: int) -> Figures:
        before = host()
        figures = measure(target, number)
        return figures | {"taken": host().share_since(before)}

    rounds: list[dict[str, Figures]] = []
    while len(rounds) < 2 * count and len([r for r in rounds if taken(r) <= QUIET]) < count:
        number = len(rounds)
        order = targets if number % 2 == 0 else targets[::-1]
        rounds.append({target.name: measured(target, number) for target in order})
    kept = quietest(rounds, count)
    return {target.name: [r[target.name] for r in kept] for target in targets}


def taken(of_targets: dict[str, Figures]) -> float:
    """Return the greatest share that the host took from one of the targets of a round."""
    return max(figures["taken"] for figures in of_targets.values())


def quietest(rounds: list[dict[str, Figures]], count: int) -> list[dict[str, Figures]]:
    """Return the `count` rounds from which the host took least, in the order of their times.

    Wrong answers count in every round: one with some is kept whatever the host did.
    """

    def order(number: int) -> tuple[bool, float]:
        one = rounds[number]
        return not any(figures["bad"] for figures in one.values()), taken(one)

    chosen = sorted(range(len(rounds)), key=order)[:count]
    return [rounds[number] for number in sorted(chosen)]


def medians(rounds: list[Figures]) -> Figures:
    """Return the median of each figure; the sum of `bad`."""
    found = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    return found | {"bad": sum(r["bad"] for r in rounds)}


def ratio(samples: Samples, name: str, to: str, figure: str = "cost") -> float | None:
    """Return the median of the ratios within each round; None without both targets."""
    if not samples.get(name) or not samples.get(to):
        return None
    return statistics.median(ratios(samples, name, to, figure))


def ratios(samples: Samples, name: str, to: str, figure: str = "cost") -> list[float]:
    """Return the ratio within each round."""
    pairs = zip(samples[name], samples[to], strict=True)
    return [mine[figure] / other[figure] for mine, other in pairs]


def summary(samples: Samples) -> dict:
    """Return medians per target, and the ratio of each target's cost to nginx with its quartiles."""
    found: dict[str, dict] = {name: medians(rounds) for name, rounds in samples.items()}
    for name, figures in found.items():
        if "cost" in figures and (of := ratio(samples, name, REFERENCE)) is not None:
            figures["ratio"] = of
            if name != REFERENCE and len(rounds_of := ratios(samples, name, REFERENCE)) > 1:
                figures["ratio_low"], _, figures["ratio_high"] = statistics.quantiles(rounds_of)
    return found


def bad(results: dict, path: str = "") -> list[str]:
    """Return the paths of all results that contain wrong answers."""
    found = []
    for name, value in results.items():
        here = f"{path} / {name}" if path else name
        if name == "bad" and value:
            found.append(f"{path}: {value:g} wrong answers")
        elif isinstance(value, dict):
            found += bad(value, here)
    return found
