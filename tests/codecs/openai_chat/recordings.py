"""Answers of real servers: llama.cpp b11549, vLLM 0.32.0, Ollama 0.32.15."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2] / "recorded" / "openai_chat"


class Recording(NamedTuple):
    name: str
    status: int
    headers: dict[str, str]
    body: bytes


def read(name: str) -> Recording:
    told = (ROOT / f"{name}.txt").read_bytes()
    if told.startswith(b"###"):  # the request, in two lines
        told = told.split(b"\n", 2)[2]
    crlf = told.split(b"\n", 1)[0].endswith(b"\r")
    head, _, body = told.partition(b"\r\n\r\n" if crlf else b"\n\n")
    first, *rest = head.decode().replace("\r", "").split("\n")
    headers = dict(line.lower().split(":", 1) for line in rest)
    return Recording(name, int(first.split()[1]), headers, body)


EVERY = [read(str(path.relative_to(ROOT).with_suffix(""))) for path in sorted(ROOT.rglob("*.txt"))]
ANSWERS = [recording for recording in EVERY if recording.status == 200]
REJECTIONS = [recording for recording in EVERY if recording.status != 200]
