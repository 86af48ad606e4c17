"""What a conversation contains that a pass may have to change.

Most conversations contain nothing that most passes change. `translate.plan` computes the traits once
and calls only the passes that apply. The traits of a turn are kept in the turn.
"""

from collections.abc import Sequence

import msgspec

from toolbridge.core.messages import Part, Text, Turn
from toolbridge.core.prefix_memo import PrefixMemo
from toolbridge.core.shared_turns import once_per_turn
from toolbridge.history.files import holds_file
from toolbridge.history.own_fields import has_own_fields


class Traits(msgspec.Struct, frozen=True):
    """The traits of a conversation."""

    kinds: frozenset[type[Part]]
    """The types of the parts, without those inside of results."""
    files: bool
    """Whether a part is a file that a vendor stores."""
    sealed: bool
    """Whether a part carries opaque tokens."""
    own: tuple[Turn, ...]
    """The turns with fields that only the client's API has, or with marks of a prefix to cache."""


class _TurnTraits(msgspec.Struct, frozen=True):
    """The same for one turn. It does not refer to the turn, which refers to it."""

    kinds: frozenset[type[Part]]
    files: bool = False
    sealed: bool = False
    own: bool = False


def traits_of(turns: Sequence[Turn]) -> Traits:
    """Return the traits of a conversation."""
    if len(turns) == 1 and _is_plain_text(turns[0]):
        return _ONE_TEXT  # as most first requests
    return _found.after(turns, None, _NONE, _joined)


_found: PrefixMemo[Traits] = PrefixMemo()
_NONE = Traits(frozenset(), files=False, sealed=False, own=())
_ONE_TEXT = Traits(frozenset({Text}), files=False, sealed=False, own=())


def _joined(before: Traits, turns: Sequence[Turn], _: None) -> Traits:
    kinds, own = set(before.kinds), [*before.own]
    files, sealed = before.files, before.sealed
    for turn in turns:
        one = _TEXT if _is_plain_text(turn) else _turn_traits(turn)
        kinds |= one.kinds
        files = files or one.files
        sealed = sealed or one.sealed
        if one.own:
            own.append(turn)
    return Traits(frozenset(kinds), files, sealed, tuple(own))


_TEXT = _TurnTraits(frozenset({Text}))


def _is_plain_text(turn: Turn) -> bool:
    """Return whether a turn is one text and nothing else; computed faster than found in the turn."""
    only = turn.content[0] if len(turn.content) == 1 else None
    if type(only) is not Text or only.opaque or only.cache:
        return False
    for source in (only.source, turn.source):
        if source is not None and (source.unknown or source.around):
            return False
    return True


@once_per_turn
def _turn_traits(turn: Turn) -> _TurnTraits:
    return _TurnTraits(
        frozenset(map(type, turn.content)),
        files=holds_file(turn),
        sealed=any(getattr(part, "opaque", ()) for part in turn.content),
        own=has_own_fields(turn),
    )
