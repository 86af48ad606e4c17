"""The classes of failures: what a problem means for the next attempt.

`classify` is the only place that decides this. `retry.py` repeats a request with the same provider
for some classes, and `failover.py` goes to another provider for most of them. The codecs have read
the provider's own error before; here its kind, its status and, where providers use the same status
for several things, its text are judged.
"""

import re
from typing import Literal, TypeAlias

from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.core.messages import Problem

FailureClass: TypeAlias = Literal[
    "rate_limit",
    "quota",
    "overload",
    "connection",
    "broken_answer",
    "auth",
    "no_model",
    "overflow",
    "too_large",
    "bad_request",
]
"""
- `rate_limit`: too many requests for a moment; the error may have the time to wait.
- `quota`: no credit is left, or none until a date.
- `overload`: the server is too busy, or failed by itself (5xx).
- `connection`: there was no connection, it broke, or nothing came in time.
- `broken_answer`: the model wrote something unusable; a second answer is mostly better.
- `auth`: the provider rejects the key, or the key may not use this model.
- `no_model`: the provider does not serve the model, or not at this address.
- `overflow`: the prompt does not fit into the context window of the model.
- `too_large`: the request is larger than this provider or account accepts at once.
- `bad_request`: the request itself is wrong, so that every provider would reject it.
"""

QUOTA_WAIT = 600.0
"""Seconds. A rate limit with a longer wait is a quota that is used up until then."""

_CLASSES: dict[str, FailureClass] = {
    "overloaded": "overload",
    "broken_wire": "connection",
    "truncated": "connection",
    "unreachable": "connection",
    "timed_out": "connection",
    "broken_call": "broken_answer",
    "context_overflow": "overflow",
    "too_large": "too_large",
    "unknown_model": "no_model",
    "unknown_route": "no_model",
    "config": "no_model",
    "unauthenticated": "auth",
    "not_allowed": "auth",
}
"""Kind → class; `rate_limited` and `rejected` are judged further, all others are `bad_request`."""

# 408 Request Timeout, 409 Conflict (a lock) and 425 Too Early (RFC 8470) are temporary, and so are
# 5xx, except 501 Not Implemented and 505 HTTP Version Not Supported. A 429 is `rate_limited`; one
# that is `rejected` means that no credit is left (OpenAI, error codes: `insufficient_quota`).
_STATUSES: dict[int, FailureClass] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "no_model",
    405: "no_model",
    408: "overload",
    409: "overload",
    413: "too_large",
    425: "overload",
    429: "quota",
    501: "no_model",
    505: "no_model",
}

# Anthropic, a 400: "Your credit balance is too low to access the Anthropic API."; OpenRouter, a 403:
# "Key limit exceeded (total limit)"; AWS, a 400: "You have exceeded your account's … quota".
_QUOTA = lazy_pattern(
    r"credit balance is too low|insufficient (?:balance|credits?|quota)|key limit exceeded"
    r"|(?:spend|spending|billing|usage) (?:hard )?limit|exceeded your \S* ?(?:current )?quota",
    re.IGNORECASE,
)
# OpenRouter, a 429: "Rate limit exceeded: free-models-per-day"; Groq, a 429: "Rate limit reached …
# on tokens per day (TPD): Limit 100000".
_PER_DAY = lazy_pattern(r"\bper[- ]day\b|daily (?:limit|quota)", re.IGNORECASE)
# Groq, a 413, and OpenAI, a 429: "Request too large for … on tokens per min (TPM): Limit 30000,
# Requested 61337".
_TOO_LARGE = lazy_pattern(r"request too large for", re.IGNORECASE)
# Gemini API, errors: an invalid key, and a country without the API, are a 400; OpenAI answers 403.
_AUTH = lazy_pattern(
    r"the provider rejected the API key|user location is not supported"
    r"|unsupported_country_region_territory|invalid (?:api|x-api)[- ]key",
    re.IGNORECASE,
)
# DeepSeek, a 400: "Model Not Exist"; OpenRouter, a 400: "x/y is not a valid model ID"; Groq, a 400:
# "The model `x` has been decommissioned"; Bedrock, a 400: "The provided model identifier is invalid.";
# OpenAI and vLLM: "The model `x` does not exist"; Mistral: "Invalid model: x".
_NO_MODEL = lazy_pattern(
    r"model not exist|not a valid model|has been (?:decommissioned|retired|deprecated)"
    r"|model identifier is invalid|invalid model(?: name)?\b|model_not_found|no such model"
    r"|model\b.{0,120}\b(?:does not exist|is not found|not found|is not available)",
    re.IGNORECASE | re.DOTALL,
)


def classify(problem: Problem) -> FailureClass:
    """Return the class of a failure.

    A rejection without a status came inside a stream: the provider had accepted the request, so
    that the error is the server's and temporary.
    """
    if problem.kind == "rate_limited":
        if problem.status == 413 or _TOO_LARGE.search(problem.text):
            return "too_large"
        if _PER_DAY.search(problem.text):
            return "quota"
        lasting = problem.retry_after is not None and problem.retry_after >= QUOTA_WAIT
        return "quota" if lasting else "rate_limit"
    if problem.kind != "rejected":
        return _CLASSES.get(problem.kind, "bad_request")
    status = problem.status
    if 400 <= status < 500:
        if _QUOTA.search(problem.text):
            return "quota"
        if _AUTH.search(problem.text):
            return "auth"
        if status in {400, 422} and _NO_MODEL.search(problem.text):
            return "no_model"
    known = _STATUSES.get(status)
    return known or ("bad_request" if 0 < status < 500 else "overload")
