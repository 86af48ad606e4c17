"""Count the tokens of an answer by its chunks, and judge the counts that the host claims.

A host is paid by its own count, so its claims are compared with a count of ours. A node sends one
chunk per token (node protocol, `encrypted_chunk`); a chunk that holds more text than a token can is
counted by its text. `AnswerDecoder` uses it to enforce `max_tokens` and to choose the usage that
clients see.
"""

import math
import re
from dataclasses import dataclass

from toolbridge.accounting.count import estimate_text
from toolbridge.core.json import Json

_LONGEST_TOKEN = 128
"""Bytes of the longest tokens in common vocabularies: runs of spaces or of one character."""
_RUNS = re.compile(r"(.)\1{3,}", re.DOTALL)
"""Runs of one character, such as indentation, which are few tokens."""
_BYTE_TOKENS = re.compile("[\u0800-\u10ff\u1200-\u2e7f\ua000-\uabff\ufb00-\ufeff\U00010000-\U0001ffff\U00040000-\U0010ffff]")  # fmt: skip
"""Code points beyond the common scripts. A tokenizer may use one token per byte of them, and a node
since 8.23 joins those bytes into one chunk."""


@dataclass(frozen=True)
class Tolerance:
    """How far two counts of the same tokens may differ: by a factor and a number of tokens."""

    factor: float = 1.5
    """0 accepts every claim that is a number."""
    tokens: int = 32

    def most(self, count: int) -> int:
        """Return the highest count that is credible beside `count`."""
        return math.ceil(count * self.factor) + self.tokens

    def accepts(self, claim: int, least: int, most: int) -> bool:
        """Whether a claim is credible, when between `least` and `most` tokens were delivered."""
        return not self.factor or (claim <= self.most(most) and least <= self.most(claim))


_DENSEST = Tolerance(3.0, 64)
"""The most text per token of an honest answer, as estimated tokens. A vocabulary may have long words
of many languages, which the estimate counts as several tokens."""


class DeliveredTokens:
    """The tokens of one answer, counted while its chunks arrive."""

    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._text = 0.0
        """Tokens by an estimate of the text."""
        self._by_bytes = 0
        """Tokens that a tokenizer without the script of the text may need."""
        self._units = 0
        """Chunks; a chunk longer than the longest token counts as several."""
        self._empty = 0

    def feed(self, text: str) -> None:
        """Count the text of one chunk."""
        size = len(text.encode("utf-8", "surrogatepass"))
        self._units += max(1, -(-size // _LONGEST_TOKEN))
        if not text:
            self._empty += 1
            return
        self._text += estimate_text(_RUNS.sub(r"\1", text), family="openai")
        if not text.isascii():
            self._by_bytes += sum(len(one.encode()) for one in _BYTE_TOKENS.findall(text))

    def skip(self) -> None:
        """Count a chunk whose text is not read, because the answer is cut already."""
        self._units += 1

    @property
    def count(self) -> int:
        """The tokens that were delivered: the chunks, or the estimate if they hold more text."""
        chunks = self._units - self._empty
        estimate = round(self._text)
        return chunks if estimate <= _DENSEST.most(chunks) else estimate

    def exceeds(self, limit: int) -> bool:
        """Whether the answer is longer than `limit` tokens."""
        return self._units > limit or self._text > _DENSEST.most(limit)

    def room(self, limit: int) -> int:
        """Return how many characters of the next chunk are within `limit` tokens."""
        return max(0, limit - self._units) * 4

    def accepts(self, claim: int, *, whole: bool = True) -> bool:
        """Whether the host's count is credible; with `whole`, it must not be too low either."""
        most = max(self.count, self._units, self._by_bytes)
        return self._tolerance.accepts(claim, self.count if whole else 0, most)


def read_count(claim: Json) -> int | None:
    """Return a claimed count; None if it is not a whole number of at least 0."""
    if isinstance(claim, bool) or not isinstance(claim, int | float):
        return None
    if claim < 0 or claim != claim or claim in {math.inf, -math.inf}:  # noqa: PLR0124  NaN
        return None
    return int(claim) if claim == int(claim) else None


def show_claim(claim: Json) -> str:
    """Return a claim for a message: shortened, without control characters."""
    if isinstance(claim, int) and claim.bit_length() > 128:
        return f"about 2^{claim.bit_length()}"
    return (repr(claim) if isinstance(claim, str) else str(claim))[:40]
