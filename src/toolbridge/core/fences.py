"""Markdown code fences, for APIs that have no part for executed code and its output."""

import re

_TICKS = re.compile(r"`{3,}")
_WORD = re.compile(r"[a-z0-9_+#-]{1,20}")


def fenced(text: str, language: str = "") -> str:
    """Return `text` as a fenced code block, or an empty text where `text` is blank.

    CommonMark 4.5: the fence must be longer than any run of backticks inside.
    """
    if not text.strip():
        return ""
    longest = max((len(row) for row in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    name = language.lower() if _WORD.fullmatch(language.lower()) else ""
    return f"\n{fence}{name}\n{text.rstrip()}\n{fence}\n"
