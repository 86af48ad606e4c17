"""Splits parallel calls into one call per turn.

For models whose chat template accepts one call per assistant message (setting `sequential_tools`).
"""

from collections.abc import Sequence
from itertools import pairwise

from toolbridge.core.messages import Call, Part, Result, Turn


def one_at_a_time(turns: Sequence[Turn]) -> list[Turn]:
    """Return `turns` with N calls of one turn as N pairs of a call and its result.

    Content before a call stays with that call, content after the last call with the last one; other
    user content follows the last pair.
    """
    split: list[Turn] = []
    skip = False
    for turn, after in pairwise((*turns, Turn("system", ()))):
        if skip:
            skip = False
        elif sum(isinstance(part, Call) for part in turn.content) > 1:
            split += _pairs(turn, after)
            skip = True
        else:
            split.append(turn)
    return split


def _pairs(asking: Turn, answering: Turn) -> list[Turn]:
    asked = _cut_after_calls(asking)
    results = [part for part in answering.content if isinstance(part, Result)]
    others = tuple(part for part in answering.content if not isinstance(part, Result))
    pairs: list[Turn] = []
    for content, result in zip(asked, results, strict=True):
        pairs += [Turn(asking.role, content), Turn("user", (result,))]
    pairs[-1] = Turn("user", (*pairs[-1].content, *others))
    return pairs


def _cut_after_calls(turn: Turn) -> list[tuple[Part, ...]]:
    pieces: list[tuple[Part, ...]] = []
    piece: list[Part] = []
    for part in turn.content:
        piece.append(part)
        if isinstance(part, Call):
            pieces.append(tuple(piece))
            piece = []
    pieces[-1] += tuple(piece)
    return pieces
