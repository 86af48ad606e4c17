"""What an answer used and what that cost."""

import msgspec

from toolbridge.core.json import JsonObject


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    """US dollars, by what they were spent on."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens, each counted once: `input` leaves out what the cache read or wrote.

    Every API counts otherwise (OpenAI's prompt tokens include the cached ones, Anthropic's input
    tokens do not); codecs turn their own count into this one. `output` includes `reasoning`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_long: int = 0
    """The part of `cache_write` that is kept for an hour or more."""
    reasoning: int = 0
    searches: int = 0
    vision: int = 0
    """Tokens that describing pictures to the model took, where that is counted apart."""
    cost: Cost | None = None
    native: dict[str, JsonObject] = msgspec.field(default_factory=dict)
    """API → the provider's counts that have no name here, for clients of that API."""

    @property
    def input_total(self) -> int:
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        return self.input_total + self.output
