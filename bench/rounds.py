"""Interleaved rounds of one scenario over several targets, and their medians and ratios.

Rounds alternate between the targets, so that the load of the machine changes all of them. A ratio
is taken within each round, and the median of these ratios is the figure.
"""

import statistics
from collections.abc import Callable, Sequence

from bench.scenarios import Figures
from bench.targets import Target

REFERENCE = "nginx"
Samples = dict[str, list[Figures]]


def interleaved(
    targets: Sequence[Target], measure: Callable[[Target, int], Figures], count: int
) -> Samples:
    """Return the figures of `count` rounds for each target, the order reversed in every second."""
    samples: Samples = {target.name: [] for target in targets}
    for number in range(count):
        for target in targets if number % 2 == 0 else reversed(targets):
            samples[target.name].append(measure(target, number))
    return samples


def medians(rounds: list[Figures]) -> Figures:
    """Return the median of each figure; the sum of `bad`."""
    found = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    return found | {"bad": sum(r["bad"] for r in rounds)}


def ratio(samples: Samples, name: str, to: str, figure: str = "cost") -> float | None:
    """Return the median of the ratios within each round; None without both targets."""
    if not samples.get(name) or not samples.get(to):
        return None
    pairs = zip(samples[name], samples[to], strict=True)
    return statistics.median(mine[figure] / other[figure] for mine, other in pairs)


def summary(samples: Samples) -> dict:
    """Return medians per target, and the ratio of each target's cost to nginx."""
    found: dict[str, dict] = {name: medians(rounds) for name, rounds in samples.items()}
    for name, figures in found.items():
        if "cost" in figures and (of := ratio(samples, name, REFERENCE)) is not None:
            figures["ratio"] = of
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
