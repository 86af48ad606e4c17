"""The types of the parts in a conversation.

Most conversations have no parts of most types. A pass that changes only parts of certain types asks
here first, and leaves the others as they are.
"""

from collections.abc import Sequence

from toolbridge.core.messages import Part, Turn


def kinds_of(turns: Sequence[Turn]) -> set[type[Part]]:
    """Return the types of the parts in `turns`, without those inside of results."""
    kinds: set[type[Part]] = set()
    for turn in turns:
        kinds.update(map(type, turn.content))
    return kinds
