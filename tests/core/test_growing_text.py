"""The text of a block is what was written, however many pieces it had, and takes little memory."""

import sys

from tests.tables import every_row

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.fold import Fold
from toolbridge.core.growing_text import MOST_PIECES


@every_row("count", [0, 1, MOST_PIECES, MOST_PIECES + 1, 5 * MOST_PIECES + 7])
@every_row("kind", ["text", "think", "call"])
def test_a_block_of_any_number_of_pieces_is_their_text(count, kind):
    draft, fold = Draft(), Fold()
    pieces = [f"{number} ä" for number in range(count)]
    if kind == "call":
        fold.feed_all(draft.call("c", name="f", id="c1"))
        pieces = ['{"n":"', *pieces, '"}']
    for piece in pieces:
        write = {"text": draft.text, "think": draft.think}.get(kind)
        fold.feed_all(write(piece) if write else draft.arguments("c", piece))
    so_far = fold.message.content
    events = draft.finish("end")
    fold.feed_all(events)
    whole = "".join(pieces)
    if kind == "call":
        assert so_far[0].raw == whole
        assert fold.message.content[0].arguments == {"n": whole[6:-2]}
    else:
        assert [part.text for part in so_far] == [part.text for part in fold.message.content]
        assert "".join(part.text for part in so_far) == whole
    if kind == "text":
        assert draft.texts == ([whole] if whole else [])


def test_the_deltas_of_a_long_block_are_not_held_one_by_one():
    draft, fold = Draft(), Fold()
    fold.feed_all(draft.text("begin"))
    piece = f"{len(fold.message.content)} piece"
    held = sys.getrefcount(piece)
    for _ in range(10 * MOST_PIECES):
        fold.feed_all([ev.TextDelta(0, piece)])
        draft.text(piece)
    assert sys.getrefcount(piece) <= held + 2 * MOST_PIECES + 2
