"""Chooses how a model writes a stream, by how often its frames were valid at the first try.

The modes are `native` (the API's tools and the provider's constraint) and `sentinel` (frames in
plain text). Before there are measurements, a provider that constrains answers starts with `native`.
"""

from collections.abc import Mapping

import msgspec

from toolbridge.structured.contract import Mode

_PRIOR_TRIES = 6
"""How many measured streams weigh as much as the expectation before any."""
_MAX_TRIES = 64
"""When a tally reaches this, it is halved, so that newer streams count more."""


class FirstTries(msgspec.Struct, frozen=True):
    """How many streams there were, and how many had only valid frames at the first try."""

    tries: float = 0
    valid: float = 0

    def plus(self, *, valid: bool) -> "FirstTries":
        part = 0.5 if self.tries >= _MAX_TRIES else 1.0
        return FirstTries(self.tries * part + 1, self.valid * part + valid)

    def rate(self, expected: float) -> float:
        """Return the rate; `expected` counts as much as a few streams."""
        return (self.valid + expected * _PRIOR_TRIES) / (self.tries + _PRIOR_TRIES)


def expected_rates(*, constrained: bool, tools: bool, objects: bool) -> dict[Mode, float]:
    """Return the rates to expect before any measurement.

    `constrained`: the provider constrains this stream's answers. `tools`: the model has native tools.
    `objects`: the model writes objects, for which no API has a form of its own.
    """
    if constrained:
        return {"native": 0.95, "sentinel": 0.6}
    native = 0.8 if tools and not objects else 0.5
    return {"native": native, "sentinel": 0.75}


def best_mode(expected: Mapping[Mode, float], measured: Mapping[Mode, FirstTries]) -> Mode:
    """Return the mode with the best rate; the first one where several are equal."""
    nothing = FirstTries()
    return max(expected, key=lambda mode: measured.get(mode, nothing).rate(expected[mode]))
