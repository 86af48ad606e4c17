"""The pauses after which a server that does not answer is asked again.

A refused connection costs nothing, so such a server may be asked again at once. A server that lets
a question wait until its limit is asked after a pause, which doubles with every further failure.
"""

FIRST_PAUSE = 5.0
"""Seconds until a server that has just fallen silent is asked again."""
LONGEST_PAUSE = 60.0
SLOW = 0.2
"""Seconds. A refused connection takes less."""


class Silence:
    """How long one server has not answered in time."""

    def __init__(self) -> None:
        self._pause = 0.0
        self.until = 0.0
        """The time from which the server may be asked again."""

    @property
    def lasts(self) -> bool:
        """Whether the last question was not answered in time."""
        return self._pause > 0.0

    def note(self, now: float, *, answered: bool, took: float) -> None:
        """Note the end of a question, which took `took` seconds."""
        if answered or took <= SLOW:
            self._pause = self.until = 0.0
            return
        self._pause = min(2 * self._pause, LONGEST_PAUSE) or FIRST_PAUSE
        self.until = now + self._pause
