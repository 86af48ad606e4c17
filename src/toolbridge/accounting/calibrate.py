"""Calibrate token estimates by the usage that providers report.

Each model has a ratio of actual to estimated tokens. It applies to prompts of about the size of
those that it was learned from: most of a tiny prompt is template overhead, which does not scale, so
the correction fades for larger prompts. For the check of the context window, a corrected count is
never taken for less than `LEAST_SHARE` of the estimate.
"""

from collections import OrderedDict, deque
from typing import Literal

import msgspec

LOWEST, HIGHEST = 0.2, 5.0
"""A ratio outside of these is ignored: the report left out a cached prefix, or has another unit."""
_STRAY = 0.25
"""A report that differs from the median of the recent ones by more than this share is ignored."""
_DRIFT = 0.1
"""A mean that differs from that median by more than this share is replaced by it."""
_ENOUGH = 3
"""Reports before a correction applies."""
_MEMORY = 5
"""Recent reports that are kept."""
_SLOWEST = 0.1
"""The least weight of a new report in the mean."""
_REACH = 4
"""Up to this many times the largest recent prompt, the correction applies in full."""
LEAST_SHARE = 0.6
"""The least share of an estimate that a real tokenizer produces, whatever was reported."""


class RatioState(msgspec.Struct, frozen=True, array_like=True):
    """What is known about the counts of one model, as it is kept."""

    mean: float
    learned: int
    recent: tuple[float, ...]
    sizes: tuple[int, ...]


class _Ratio:
    """The ratio of actual to estimated tokens: a moving mean, checked against the recent median.

    A single report that leaves out a cached prefix is far from the median and is ignored. When the
    median itself has moved, the mean restarts from it.
    """

    __slots__ = ("learned", "mean", "recent", "sizes")

    def __init__(self, known: RatioState | None = None) -> None:
        self.mean = known.mean if known else 1.0
        self.learned = known.learned if known else 0
        self.recent: deque[float] = deque(known.recent if known else (), maxlen=_MEMORY)
        self.sizes: deque[int] = deque(known.sizes if known else (), maxlen=_MEMORY)

    @property
    def state(self) -> RatioState:
        return RatioState(self.mean, self.learned, tuple(self.recent), tuple(self.sizes))

    def learn(self, ratio: float, size: int) -> None:
        self.recent.append(ratio)
        self.sizes.append(size)
        ordered = sorted(self.recent)  # for the median: importing `statistics` takes milliseconds
        half = len(ordered) // 2
        middle = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
        if not self.learned or abs(self.mean - middle) > _DRIFT * middle:
            self.mean = middle
            self.learned = 1
        elif abs(ratio - middle) <= _STRAY * middle:
            self.learned += 1
            self.mean += max(1 / self.learned, _SLOWEST) * (ratio - self.mean)


class Calibration:
    """The ratios of the models that were used last, by address."""

    def __init__(self, *, models: int = 256) -> None:
        self._most = models
        self._ratios: OrderedDict[str, _Ratio] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ratios)

    def learn(self, model: str, estimated: int, actual: int) -> None:
        """Record the count that the provider reported for a prompt with this estimate."""
        if estimated <= 0 or not LOWEST <= actual / estimated <= HIGHEST:
            return
        ratio = self._ratios.get(model)
        if ratio is None:
            ratio = self._ratios[model] = _Ratio()
        ratio.learn(actual / estimated, estimated)
        self._ratios.move_to_end(model)
        if len(self._ratios) > self._most:
            self._ratios.popitem(last=False)

    def states(self) -> dict[str, RatioState]:
        """Return what is known, to be kept."""
        return {model: ratio.state for model, ratio in self._ratios.items()}

    def adopt(self, kept: dict[str, RatioState]) -> None:
        """Adopt the ratios of models for which another process has more reports."""
        for model, state in kept.items():
            known = self._ratios.get(model)
            if state.recent and (known is None or known.learned < state.learned):
                self._ratios[model] = _Ratio(state)
        while len(self._ratios) > self._most:
            self._ratios.popitem(last=False)

    def apply(self, model: str, estimated: int) -> tuple[int, Literal["calibrated", "estimated"]]:
        """Return the corrected estimate, or the estimate itself while there are too few reports."""
        ratio = self._ratios.get(model)
        if ratio is None or len(ratio.recent) < _ENOUGH:
            return estimated, "estimated"
        # The ratio approaches 1 for prompts that are larger than the known ones.
        trust = min(1.0, _REACH * max(ratio.sizes) / estimated) if estimated else 1.0
        corrected = round(estimated * (1.0 + (ratio.mean - 1.0) * trust))
        # A prompt that is not empty has at least one token.
        return max(corrected, min(estimated, 1)), "calibrated"
