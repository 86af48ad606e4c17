"""How long a client should wait before it repeats a request.

Providers send `retry-after` (seconds), OpenAI and Anthropic also `retry-after-ms`. Codecs read both
into `Problem.retry_after` and write the header again for the client.
"""

import math
import re
from collections.abc import Mapping

from toolbridge.core.messages import Problem

DEFAULT_WAIT = 5.0
"""Seconds that are announced where the provider names none: some clients give up without them."""
_TEMPORARY = frozenset({"overloaded", "rate_limited"})
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")
_WORDS = re.compile(
    r"(?:try again|retry) in "
    r"(?:(\d{1,4})h)?(?:(\d{1,4})m(?!s))?(?:(\d{1,6}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?",
    re.IGNORECASE,
)


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a provider asks for; None without a header, or where it is a date."""
    lower = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = lower.get(name, "").strip()
        if _SECONDS.fullmatch(value):
            return float(value) / unit
    return None


def read_wait(text: str) -> float | None:
    """Return the seconds that the text of an error asks for; None without any.

    OpenAI and Groq: "Please try again in 9m38.016s", "… in 20s", "… in 250ms".
    """
    found = _WORDS.search(text)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, seconds, thousandths = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000


def maybe_wait(problem: Problem) -> float | None:
    """Return the seconds to announce to the client; None where waiting does not help."""
    if problem.retry_after is None and problem.kind in _TEMPORARY and not problem.permanent:
        return DEFAULT_WAIT
    return problem.retry_after


def retry_headers(wait: float | None) -> dict[str, str]:
    """Return the `retry-after` header in whole seconds (RFC 9110, section 10.2.3), if any."""
    return {} if wait is None else {"retry-after": str(math.ceil(wait))}
