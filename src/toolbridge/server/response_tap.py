"""Keeps the response of one exchange in its pieces, for recordings and replays."""

from collections.abc import Awaitable, Callable, Mapping

from toolbridge.routing.exchange_trace import ExchangeTrace


class RecordingTap:
    """The status, the headers and the body that a client gets."""

    def __init__(self, trace: ExchangeTrace | None = None) -> None:
        self._trace = trace
        self._beating = False
        self.beat: Callable[[], Awaitable[None]] | None = None
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[tuple[float, bytes, bool]] = []
        """The time, the bytes, and whether they are a keep-alive."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = dict(headers)

    def note_beat(self) -> None:
        self._beating = True

    def add(self, piece: bytes) -> None:
        beating, self._beating = self._beating, False
        if not piece:
            return
        if self._trace is None:
            self.pieces.append((0.0, piece, beating))
        elif self._trace.take_room(len(piece)):
            self.pieces.append((self._trace.elapsed, piece, beating))
