"""Stop sequences, for an engine that knows none."""

from collections.abc import Sequence


class Scissors:
    """Cuts running text where the first stop sequence is complete.

    What may still become one is held back. Of several, the one that ends first wins, so the same
    text is cut at the same place however it comes in pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.hit = ""
        """The sequence that was found."""

    def feed(self, piece: str) -> str:
        """Return what is certain to stand before any stop sequence."""
        if self.hit:
            return ""
        text = self._held + piece
        ends = [(at + len(s), -len(s), s) for s in self._stops if (at := text.find(s)) >= 0]
        if ends:
            end, _, self.hit = min(ends)
            self._held = ""
            return text[: end - len(self.hit)]
        kept = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def close(self) -> str:
        """Return what was held and did not become a stop sequence."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
