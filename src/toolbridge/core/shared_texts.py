"""Texts that are joined the same way in every request of a session.

A string keeps its UTF-8 once it was encoded, so a system prompt that is the same object in every
request is encoded once and not once in each of them.
"""

from collections.abc import Sequence

from toolbridge.core.byte_memo import ByteMemo

_memo: ByteMemo[str, tuple[list[str], str, str]] = ByteMemo(2 * 1024 * 1024)
"""Joined texts by the longest of them."""
_MOST = 16
"""Texts that are kept; more of them could be many times longer than the longest one."""


def join_shared(joint: str, texts: Sequence[str]) -> str:
    """Return `joint.join(texts)`, as the same object if these were joined last time."""
    given = [*texts]
    if not 1 < len(given) <= _MOST:
        return joint.join(given)
    longest = max(given, key=len)
    found = _memo.get(longest)
    if found is not None and found[0] == given and found[1] == joint:
        return found[2]
    joined = joint.join(given)
    _memo.put(longest, (given, joint, joined))
    return joined
