"""Answers of three real servers: llama.cpp b11549, vLLM 0.32.0 and Ollama 0.32.15."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2] / "recorded" / "openai_responses"


class Recording(NamedTuple):
    name: str
    status: int
    body: bytes


def read(name: str) -> Recording:
    data = (ROOT / f"{name}.txt").read_bytes()
    head = re.match(rb"(?:### [^\n]*\n)*HTTP\S* (\d+).*?\r?\n\r?\n", data, re.DOTALL)
    return Recording(name, int(head[1]), data[head.end() :])


EVERY = [read(str(path.relative_to(ROOT).with_suffix(""))) for path in sorted(ROOT.rglob("*.txt"))]
ANSWERS = [recording for recording in EVERY if recording.status == 200]
