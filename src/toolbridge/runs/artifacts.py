"""The artifacts of a run: a folder named by its id, with `frames.ndjson` and four JSON files.

Writing never delays a stream: one thread writes everything. If the disk is too slow, events that do
not fit the thread's queue are dropped and counted; a full disk is reported once. Events are appended
as they come and the other files are replaced whole, so a killed process leaves readable files. The
writing functions accept `Redacted` bytes only, which only the redactor creates. One run writes at
most `Retention.run_bytes`; the rest is dropped and counted in `metrics.json`.
"""

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.redaction import Redacted, Redactor
from toolbridge.runs.folders import FRAMES, NO_LINK, Retention, prune, run_folder
from toolbridge.runs.frames import EventFrame, EventFrames
from toolbridge.runs.metrics import RunMetrics
from toolbridge.store.notices import notice

WAITING = 20_000
"""The most items in the queue of the writing thread."""
_BUFFER = 65_536
_PRUNING = 10.0
"""Seconds between two removals of old runs."""
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINK
_REPLACE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_LINK


class Artifacts:
    """The folders of all runs, and the thread that writes them."""

    def __init__(
        self,
        root: Path,
        *,
        keep: int = 200,
        retention: Retention | None = None,
        redactor: Redactor | None = None,
        waiting: int = WAITING,
        pause: float = _PRUNING,
    ) -> None:
        """Write runs below `root` within `retention`; `redactor` removes secrets."""
        self.root = root
        self.retention = retention or Retention(runs=keep)
        self.redactor = redactor or Redactor()
        self._most = waiting
        self._work: queue.SimpleQueue[tuple[Callable[[], None], int] | None] = queue.SimpleQueue()
        self._submitted = self._done = 0
        """Items that were queued, and those that the thread has written; each counted by its thread."""
        self._pause = pause
        self._thread: threading.Thread | None = None
        self._dirty: set[RunFiles] = set()
        self._open: set[str] = set()
        self._pruned = float("-inf")
        self._complained = False

    def open(self, run: str, prompt: JsonObject) -> "RunFiles":
        """Create the folder of `run`; raise `LookupError` if `run` is not a run id."""
        run_folder(self.root, run)
        self._start_thread()
        self._open.add(run)
        files = RunFiles(self, run)
        files.write("prompt", prompt)
        return files

    def _start_thread(self) -> None:
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._write, name="toolbridge-artifacts", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads: the run continues without artifacts
            self.warn(str(error))
        else:
            self._thread = thread

    async def settled(self, wait: float = 5.0) -> bool:
        """Wait until everything submitted so far is written; return False after `wait` seconds."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        if self._thread is None:
            return True
        if not self.submit(lambda: self._announce(loop, done)):
            return False
        try:
            async with asyncio.timeout(wait):
                await done.wait()
        except TimeoutError:
            return False
        return True

    async def close(self, wait: float = 5.0) -> None:
        """Write what is queued, for at most `wait` seconds, and stop the thread."""
        if await self.settled(wait) and self._thread is not None:
            self._work.put(None)
            await asyncio.to_thread(self._thread.join, wait)
            self._thread = None

    def submit(self, work: Callable[[], None], *, size: int = 1) -> bool:
        """Queue `work` on `size` items for the thread; return False if the queue is full."""
        if self._submitted - self._done + size > self._most:
            self.warn("the disk is too slow; some events of this run were not written")
            return False
        self._submitted += size
        self._work.put((work, size))
        return True

    def warn(self, text: str) -> None:
        """Log a problem once: a full disk stays full for a while."""
        if not self._complained:
            self._complained = True
            notice(f"artifacts in {self.root} are incomplete: {text}")

    # ── in the thread ────────────────────────────────────────────────────────

    def _write(self) -> None:
        while (found := self._work.get()) is not None:
            work, size = found
            try:
                work()
            except Exception as error:  # noqa: BLE001  an error in one run must not stop the others
                self.warn(str(error) or type(error).__name__)
            self._done += size
            if self._work.empty():
                self._flush()

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, set()
        for files in dirty:
            files.flush()

    def _announce(self, loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
        self._flush()
        loop.call_soon_threadsafe(done.set)

    def mark(self, files: "RunFiles") -> None:
        """Remember that `files` has lines that are not on the disk yet."""
        self._dirty.add(files)

    def release(self, run: str) -> None:
        """Mark a run as ended; now and then, remove old runs."""
        self._open.discard(run)
        now = time.monotonic()
        if now - self._pruned >= self._pause:
            self._pruned = now
            prune(self.root, self.retention, busy=frozenset(self._open), now=time.time())


class RunFiles:
    """The folder of one run while the run is active."""

    def __init__(self, artifacts: Artifacts, run: str) -> None:
        self._artifacts = artifacts
        self._run = run
        self._began = time.monotonic()
        self._at = time.time()
        self._lines = EventFrames(artifacts.redactor)
        self._measures = RunMetrics()
        self._buffer: list[Redacted] = []
        self._size = 0
        self._written: dict[str, int] = {}
        """File → bytes written."""
        self._left_out: dict[str, int] = {}
        """File → bytes dropped because the run reached `run_bytes`."""
        self._tools: list[Json] = []
        self._made: Path | None = None
        """The folder, once it exists."""
        self._broken = False
        self.lost = 0
        """Events dropped because the queue was full."""

    def frames(self, events: list[tuple[int, str, JsonObject]]) -> None:
        """Append events that were just sent: the number, name and data of each."""
        ms = self._elapsed()
        frames = [EventFrame(ms, n, event, data) for n, event, data in events]
        if not self._artifacts.submit(partial(self._frames, frames), size=len(frames)):
            self.lost += len(frames)

    def tool(self, entry: JsonObject) -> None:
        """Record the outcome of a tool call for `tool_logs.json`."""
        entry = {"ms": self._elapsed(), **entry}
        self._artifacts.submit(partial(self._tool, entry))

    def write(self, name: str, value: object) -> None:
        """Replace the file `name`.json with `value`."""
        self._artifacts.submit(partial(self._replace, name, value))

    def finish(self, result: Json, metrics: JsonObject | None = None) -> None:
        """Write the result and the metrics; `metrics` comes before those computed from the events."""
        more = {"lost_events": self.lost, **(metrics or {})} if self.lost else dict(metrics or {})
        self._artifacts.submit(partial(self._finish, result, more))

    def _elapsed(self) -> float:
        return round((time.monotonic() - self._began) * 1000, 3)

    # ── in the thread ────────────────────────────────────────────────────────

    def flush(self) -> None:
        buffer, self._buffer, self._size = Redacted(b"".join(self._buffer)), [], 0
        if not buffer or self._broken:
            return
        size = self._written.get(FRAMES, 0) + len(buffer)
        if FRAMES not in self._left_out and self._fits(FRAMES, size):
            self._guarded(lambda: _append(self._folder() / FRAMES, buffer))
            self._written[FRAMES] = size
        else:
            self._left_out[FRAMES] = self._left_out.get(FRAMES, 0) + len(buffer)

    def _fits(self, name: str, size: int) -> bool:
        others = sum(self._written.values()) - self._written.get(name, 0)
        return others + size <= self._artifacts.retention.run_bytes

    def _frames(self, frames: list[EventFrame]) -> None:
        for frame in frames:
            self._measures.note(frame)
            self._keep(self._lines.feed(frame))

    def _keep(self, lines: list[Redacted]) -> None:
        self._buffer += lines
        self._size += sum(map(len, lines))
        if self._size > _BUFFER:
            self.flush()
        elif lines:
            self._artifacts.mark(self)

    def _tool(self, entry: JsonObject) -> None:
        self._tools.append(entry)
        self._replace("tool_logs", self._tools)

    def _finish(self, result: Json, metrics: JsonObject) -> None:
        self._keep(self._lines.close())
        self.flush()
        if not self._tools:
            self._replace("tool_logs", [])
        self._replace("result", result)
        found: JsonObject = {"run": self._run, "started": self._at}
        if self._left_out:
            found["left_out_bytes"] = sum(self._left_out.values())
        # Written last: a folder with metrics.json belongs to a run that has ended.
        self._replace("metrics", {**found, **self._measures.summary(), **metrics})
        self._artifacts.release(self._run)

    def _replace(self, name: str, value: object) -> None:
        if self._broken:
            return
        written = self._artifacts.redactor.json(value)
        # Metrics are small and list what is missing, so they are written beyond the bound.
        if name != "metrics" and not self._fits(name, len(written)):
            self._left_out[name] = len(written)
            written = Redacted(b'{"left_out_bytes":%d}' % len(written))
        self._written[name] = len(written)
        self._guarded(lambda: _replace(self._folder(), f"{name}.json", written))

    def _folder(self) -> Path:
        if self._made is None:
            folder = run_folder(self._artifacts.root, self._run)
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            self._made = folder
        return self._made

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do `work`; after a failure, write nothing more for this run."""
        try:
            try:
                work()
            except FileNotFoundError:  # someone has removed the folder
                self._made = None
                work()
        except OSError as error:
            self._broken = True
            self._artifacts.warn(error.strerror or str(error))


def _append(file: Path, data: Redacted) -> None:
    _put(os.open(file, _APPEND, 0o600), data)


def _replace(folder: Path, name: str, data: Redacted) -> None:
    temporary = folder / f".{name}.tmp"
    _put(os.open(temporary, _REPLACE, 0o600), data)
    temporary.replace(folder / name)


def _put(descriptor: int, data: Redacted) -> None:
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)
