"""Refuses regular expressions that may take exponential time."""

import re

LONGEST = 200
"""Anthropic, tool search tool: the most characters of a pattern."""


def fault_of_pattern(pattern: str) -> str:
    """Return why a pattern is refused; empty if it is accepted."""
    if len(pattern) > LONGEST:
        return f"the pattern has more than {LONGEST} characters"
    try:
        re.compile(pattern)
    except re.error as error:
        return f"the pattern is not valid: {error}"
    if re.search(r"\)[*+{]", pattern):
        return "the pattern repeats a group; search for words or use `.*` instead"
    return ""
