"""Cuts a model's text into chunks."""

import re
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from zlib import crc32

from toolbridge.conformance.streams.cases import ScriptedAnswer, expand

_WAIT = re.compile(r"<<wait ([0-9.]+)>>")


def pieces(say: ScriptedAnswer, cutting: str, seed: str) -> Iterator[str | float]:
    """Yield pieces of text and, between them, seconds to wait."""
    for at, part in enumerate(_WAIT.split(expand(say.text))):
        if at % 2:
            yield float(part)
        elif cutting == "given":
            yield from _at(part, say.at)
        else:
            yield from cut(part, cutting, seed)


def cut(text: str, cutting: str, seed: str) -> Iterator[str]:
    """Yield `text` whole, in chunks of a fixed size, or in random chunks by a seed."""
    if cutting == "random":
        dice = Random(crc32(seed.encode()))  # noqa: S311  nothing here is secret
        at = 0
        while at < len(text):
            size = dice.choice((1, 1, 2, 2, 3, 5, 8, 13, 40))
            yield text[at : at + size]
            at += size
        return
    size = len(text) or 1 if cutting == "whole" else int(cutting)
    for at in range(0, len(text), size):
        yield text[at : at + size]


def _at(text: str, places: tuple[int, ...]) -> Iterator[str]:
    edges = [0, *places, len(text)]
    for start, end in pairwise(edges):
        if text[start:end]:
            yield text[start:end]
