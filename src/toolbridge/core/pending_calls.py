"""Calls of a conversation that have no result yet.

Clients of Gemini and Ollama often send no call ids. Their turn decoders use `PendingCalls` to find
the call that a result belongs to: by the name of the tool, else by order.
"""

from collections import defaultdict, deque


class PendingCalls:
    """The ids and names of calls without a result, in their order."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._order: deque[str] = deque()
        self._by_name: defaultdict[str, deque[str]] = defaultdict(deque)

    def add(self, id: str, name: str) -> None:
        """Add a call of the tool `name`."""
        self._names[id] = name
        self._order.append(id)
        self._by_name[name].append(id)

    def find(self, name: str) -> str:
        """Return the id of the first call of the tool `name`, else of any tool; "" for no call."""
        return self._first(self._by_name.get(name, deque())) or self._first(self._order)

    def pop(self, id: str) -> str:
        """Remove a call that has its result now, and return the name of its tool, or ""."""
        return self._names.pop(id, "")

    def _first(self, queue: deque[str]) -> str:
        # Each id leaves a queue once, so that the search stays linear over a conversation.
        while queue and queue[0] not in self._names:
            queue.popleft()
        return queue[0] if queue else ""
