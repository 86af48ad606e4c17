"""Text from elsewhere for a terminal or a log: without control characters.

A host, a contract or a server chooses its names and error messages. Escape sequences in them could
rewrite what a terminal shows, so every text of theirs passes here before it is printed.
"""

from toolbridge.core.lazy_pattern import lazy_pattern

_CONTROLS = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""C0 and C1 controls, separators of lines, and marks that change the direction of text."""


def printable(text: str) -> str:
    """Return `text` with every control character replaced."""
    return _CONTROLS.sub("\ufffd", text)
