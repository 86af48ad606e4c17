"""The pieces that the grammar makes from a model's text."""

from itertools import groupby
from typing import Literal, TypeAlias

import msgspec

from toolbridge.structured.sentinels import Kind

Trouble: TypeAlias = Literal[
    "", "frame_too_large", "frame_too_deep", "arguments_too_large", "frame_timeout"
]


class PlainText(msgspec.Struct, frozen=True):
    text: str


class FrameOpened(msgspec.Struct, frozen=True):
    kind: Kind
    id: str
    name: str


class FrameText(msgspec.Struct, frozen=True):
    id: str
    chunk: str


class FrameClosed(msgspec.Struct, frozen=True):
    """The end of a frame, with its body."""

    kind: Kind
    id: str
    name: str
    body: str
    ended: bool = True
    """Whether the model wrote an end sentinel; else the frame was interrupted."""
    whole: bool = True
    """Whether every bracket and quote of the body is closed."""
    trouble: Trouble = ""
    """Why the frame was closed early: a limit or a timeout; empty otherwise."""


class FrameFault(msgspec.Struct, frozen=True):
    code: str
    message: str
    id: str = ""


Piece: TypeAlias = PlainText | FrameOpened | FrameText | FrameClosed | FrameFault


def join_pieces(pieces: list[Piece]) -> list[Piece]:
    """Return `pieces` with adjacent texts and adjacent chunks joined."""
    if len(pieces) < 2:  # nearly every delta
        return pieces
    joined: list[Piece] = []
    for (kind, id), run in groupby(pieces, _run_of):
        if kind is PlainText:
            joined.append(
                PlainText("".join(piece.text for piece in run if isinstance(piece, PlainText)))
            )
        elif kind is FrameText:
            chunks = "".join(piece.chunk for piece in run if isinstance(piece, FrameText))
            joined.append(FrameText(id, chunks))
        else:
            joined += run
    return joined


def _run_of(piece: Piece) -> tuple[type[Piece], str]:
    return type(piece), piece.id if isinstance(piece, FrameText) else ""
