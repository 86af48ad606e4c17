"""Code in Markdown fences: how APIs without such a part show code that a server ran, and its output."""

import re

_TICKS = re.compile(r"`{3,}")
_WORD = re.compile(r"[a-z0-9_+#-]{1,20}")


def fenced(text: str, language: str = "") -> str:
    """Return `text` as a block of code, on lines of its own; nothing where there is no text.

    The fence is longer than any row of backticks inside, as CommonMark demands.
    """
    if not text.strip():
        return ""
    longest = max((len(row) for row in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    name = language.lower() if _WORD.fullmatch(language.lower()) else ""
    return f"\n{fence}{name}\n{text.rstrip()}\n{fence}\n"
