"""Estimates that learn from what the providers count.

A ratio is believed for prompts like those that it was learned from. Most of a tiny prompt is the
overhead of its template, which says nothing about a large one; so a correction fades with the
distance, and it never takes more than `LEAST_SHARE` away from what the window is checked against.
"""

from collections import OrderedDict, deque
from typing import Literal

LOWEST, HIGHEST = 0.2, 5.0
"""A ratio beyond these is not a tokenizer's: a cached prefix was left out, or a unit is wrong."""
_STRAY = 0.25
"""A report this far from the recent ones is not believed."""
_DRIFT = 0.1
"""A mean this far from the recent reports is out of date."""
_ENOUGH = 3
_MEMORY = 5
_SLOWEST = 0.1
_REACH = 4
"""How many times larger than those of the recent reports a prompt may be to be fully corrected."""
LEAST_SHARE = 0.6
"""No tokenizer makes fewer tokens than this of one that we estimate, whatever was reported."""


class _Ratio:
    """The ratio of actual to estimated tokens: a moving mean, guarded by the recent median.

    One report that leaves out a cached prefix stands away from the median and teaches nothing; when
    the median itself has moved, the mean was wrong and starts again from there.
    """

    __slots__ = ("learned", "mean", "recent", "sizes")

    def __init__(self) -> None:
        self.mean = 1.0
        self.learned = 0
        self.recent: deque[float] = deque(maxlen=_MEMORY)
        self.sizes: deque[int] = deque(maxlen=_MEMORY)

    def at(self, estimated: int) -> float:
        """Return the ratio for a prompt of that size, the nearer to 1 the less is known of such."""
        trust = min(1.0, _REACH * max(self.sizes) / estimated) if estimated else 1.0
        return 1.0 + (self.mean - 1.0) * trust

    def learn(self, ratio: float, size: int) -> None:
        self.recent.append(ratio)
        self.sizes.append(size)
        middle = _median(self.recent)
        if not self.learned or not _near(self.mean, middle, _DRIFT):
            self.mean = middle
            self.learned = 1
        elif _near(ratio, middle, _STRAY):
            self.learned += 1
            self.mean += max(1 / self.learned, _SLOWEST) * (ratio - self.mean)


class Calibration:
    """One ratio per model, for the models that were used last."""

    def __init__(self, *, models: int = 256) -> None:
        self._most = models
        self._ratios: OrderedDict[str, _Ratio] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ratios)

    def learn(self, model: str, estimated: int, actual: int) -> None:
        """Take in what the provider counted for a prompt that we had estimated."""
        if estimated <= 0 or not LOWEST <= actual / estimated <= HIGHEST:
            return
        self._ratios.setdefault(model, _Ratio()).learn(actual / estimated, estimated)
        self._ratios.move_to_end(model)
        if len(self._ratios) > self._most:
            self._ratios.popitem(last=False)

    def apply(self, model: str, estimated: int) -> tuple[int, Literal["calibrated", "estimated"]]:
        """Return the corrected estimate and whether enough was learned to correct it."""
        ratio = self._ratios.get(model)
        if ratio is None or len(ratio.recent) < _ENOUGH:
            return estimated, "estimated"
        # Something is never nothing, however short it is.
        return max(round(estimated * ratio.at(estimated)), min(estimated, 1)), "calibrated"


def _median(values: deque[float]) -> float:
    """Return the middle of a few values; the library's own is made for data of every kind."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _near(value: float, middle: float, share: float) -> bool:
    return abs(value - middle) <= share * middle
