"""A pool of sessions, for clients that send several requests at the same time."""

from collections.abc import Callable

from toolbridge.node.session.exchange import Prompt
from toolbridge.node.session.session import NodeAnswer, NodeSession


class NodePool:
    """Up to `size` sessions; another is opened only while all open ones have requests."""

    def __init__(self, open_session: Callable[[], NodeSession], size: int = 1) -> None:
        self._open_session = open_session
        self._size = max(1, size)
        self._sessions: list[NodeSession] = []

    def answer(self, prompt: Prompt) -> NodeAnswer:
        """Return the answer to `prompt` from the session with the fewest requests.

        A session counts a request from its first read on, so read the answer at once.
        """
        return self._least_busy().answer(prompt)

    def _least_busy(self) -> NodeSession:
        best = min(self._sessions, key=lambda session: session.waiting, default=None)
        if best is not None and (not best.waiting or len(self._sessions) >= self._size):
            return best
        self._sessions.append(self._open_session())
        return self._sessions[-1]

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()
