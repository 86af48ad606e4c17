"""Answers of a real server, version 0.32.15, on both of its template paths."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2] / "recorded" / "ollama"


class Recording(NamedTuple):
    name: str
    status: int
    headers: dict[str, str]
    body: bytes


def read(name: str) -> Recording:
    head, _, body = (ROOT / f"{name}.txt").read_bytes().partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in rest)
    return Recording(name, int(first.split()[1]), headers, body)


EVERY = [read(str(path.relative_to(ROOT).with_suffix(""))) for path in sorted(ROOT.rglob("*.txt"))]
ANSWERS = [recording for recording in EVERY if recording.status == 200]
REJECTIONS = [recording for recording in EVERY if recording.status != 200]
