"""The report card of a model: every attempt, the totals by kind and mode, and the best mode.

A card without its times is the same for every run of a model that always answers the same.
"""

from collections import Counter
from collections.abc import Callable

import msgspec

from toolbridge.policy.tool_modes import ToolMode
from toolbridge.probe.tasks import KINDS, MODES


class Speed(msgspec.Struct, frozen=True):
    """The times and the token counts of one answer."""

    first_token: float = 0.0
    """Seconds until the first content."""
    seconds: float = 0.0
    output_tokens: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task in one mode, and its result."""

    task: str
    kind: str
    mode: ToolMode
    right: bool
    valid: bool | None
    """Whether the calls or the JSON are valid; None where the task needs neither."""
    first_try: bool | None
    """The same without healing."""
    dialect: str = ""
    """The dialect of calls that the model wrote as text."""
    healed: tuple[str, ...] = ()
    leak: str = ""
    thinking: bool = False
    why: str = ""
    speed: Speed | None = None


class Card(msgspec.Struct, frozen=True, omit_defaults=True):
    """The results of a probe."""

    model: str
    api: str
    window: int
    attempts: tuple[Attempt, ...]
    stopped: str = ""
    """Why the probe was stopped before all tasks were sent; empty if it was not."""

    @property
    def modes(self) -> tuple[ToolMode, ...]:
        return tuple(mode for mode in MODES if any(a.mode == mode for a in self.attempts))

    @property
    def best(self) -> ToolMode | None:
        """The mode with the most right answers; the first of equals, because it changes least.

        None if no answer is right, or if the modes cannot be compared because the probe was stopped.
        """
        if self.stopped or not any(a.right for a in self.attempts):
            return None
        return max(self.modes, key=lambda mode: self.count(lambda a: a.right, mode))

    @property
    def fault(self) -> str:
        """Why there is no best mode; empty if there is one."""
        if self.best is not None:
            return ""
        return self.stopped or f"no answer is right ({failures(self)[0]})"

    def of(self, mode: ToolMode, kind: str = "") -> list[Attempt]:
        return [a for a in self.attempts if a.mode == mode and kind in {"", a.kind}]

    def count(self, holds: Callable[[Attempt], bool], mode: ToolMode, kind: str = "") -> int:
        return sum(map(holds, self.of(mode, kind)))

    @property
    def dialect(self) -> str:
        """The dialect that the model wrote most often; empty if it wrote no call as text."""
        seen = [a.dialect for a in self.attempts if a.dialect]
        return max(sorted(set(seen)), key=seen.count) if seen else ""

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second after the first; 0 where that cannot be measured."""
        measured = self._answered
        seconds = sum(speed.seconds - speed.first_token for speed in measured)
        return sum(speed.output_tokens for speed in measured) / seconds if seconds else 0.0

    @property
    def first_token(self) -> float:
        """The median of the seconds until the first content; 0 where that cannot be measured."""
        times = sorted(speed.first_token for speed in self._answered)
        return times[len(times) // 2] if times else 0.0

    @property
    def cached(self) -> float | None:
        """The share of the input that the provider had in its prompt cache; None without counts."""
        speeds = [a.speed for a in self.attempts if a.speed is not None]
        total = sum(speed.input_tokens for speed in speeds)
        return sum(speed.cached_tokens for speed in speeds) / total if total else None

    @property
    def _answered(self) -> list[Speed]:
        """The speeds of the answers that had content."""
        return [a.speed for a in self.attempts if a.speed is not None and a.speed.first_token]


def without_times(card: Card) -> Card:
    """Return the card without anything that depends on the machine and the moment."""
    timeless = (msgspec.structs.replace(a, speed=None) for a in card.attempts)
    return msgspec.structs.replace(card, attempts=tuple(timeless))


def has_times(card: Card) -> bool:
    return any(attempt.speed is not None for attempt in card.attempts)


def rows(card: Card) -> list[tuple[str, ...]]:
    """Return the table of a card: a label and one cell per mode in each row."""
    found: list[tuple[str, ...]] = [("", *card.modes)]
    for kind, label in KINDS.items():
        if any(a.kind == kind for a in card.attempts):
            found.append((label, *(_share(card, lambda a: a.right, m, kind) for m in card.modes)))
    found.append(("all tasks", *(_share(card, lambda a: a.right, mode) for mode in card.modes)))
    found.append(("valid", *(_validity(card, m, "valid") for m in card.modes)))
    found.append(("valid at first try", *(_validity(card, m, "first_try") for m in card.modes)))
    found.append(("healed", *(str(card.count(lambda a: bool(a.healed), m)) for m in card.modes)))
    found.append(("leaks", *(str(card.count(lambda a: bool(a.leak), m)) for m in card.modes)))
    found.append(("thinking seen", *(str(card.count(lambda a: a.thinking, m)) for m in card.modes)))
    return found


def facts(card: Card) -> list[str]:
    """Return the lines under the table."""
    found = [f"best mode: {card.best or 'unknown'}"]
    if card.dialect:
        found.append(f"dialect of calls in text: {card.dialect}")
    found.append(f"window: {card.window} tokens" if card.window else "window: unknown")
    if has_times(card):
        speed, first, cached = card.tokens_per_second, card.first_token, card.cached
        found.append(f"speed: {speed:.1f} tokens/s" if speed else f"speed: {_UNMEASURED}")
        found.append(f"first token: {f'{first:.2f} s (median)' if first else _UNMEASURED}")
        found.append(
            f"prompt cache: {_UNMEASURED if cached is None else f'{cached:.0%} of the input'}"
        )
    return found


_UNMEASURED = "not measured"


def table(card: Card) -> str:
    """Return the card as text for a terminal."""
    lines = [f"{card.model} ({card.api})", ""]
    columns = list(zip(*rows(card), strict=True))
    widths = [max(map(len, column)) for column in columns]
    for row in rows(card):
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    lines += ["", *facts(card), *_failed_modes(card)]
    return "\n".join(lines)


def _failed_modes(card: Card) -> list[str]:
    """Return one line for each mode without a right answer, with the most frequent reason."""
    if card.best is None:
        return []
    failed = [mode for mode in card.modes if not card.count(lambda a: a.right, mode)]
    reasons = {mode: Counter(a.why for a in card.of(mode)).most_common(1)[0][0] for mode in failed}
    return [f"no right answer in the mode {mode}: {why}" for mode, why in reasons.items()]


def failures(card: Card) -> list[str]:
    """Return one line for each answer in the best mode that is not right.

    Without a best mode there is one line for each reason, with the most frequent one first.
    """
    if card.best is not None:
        return [f"{a.task}: {a.why}" for a in card.of(card.best) if not a.right]
    reasons = Counter(a.why for a in card.attempts if not a.right)
    return [f"{number} of {len(card.attempts)}: {why}" for why, number in reasons.most_common()]


def _validity(card: Card, mode: ToolMode, field: str) -> str:
    known = [value for a in card.of(mode) if (value := getattr(a, field)) is not None]
    return f"{sum(known)}/{len(known)}"


def _share(card: Card, holds: Callable[[Attempt], bool], mode: ToolMode, kind: str = "") -> str:
    return f"{card.count(holds, mode, kind)}/{len(card.of(mode, kind))}"
