"""Whether a request repeats an earlier one, by evidence in its headers.

Two requests with the same body may both be meant: a program samples a model twice, a person asks for
another answer. A body alone therefore proves nothing. A retry is certain where the client says so,
and for coding agents that name their session: everything that their user does, also an interruption,
becomes part of the next body, so that the same body is the same request.
"""

from toolbridge.policy.agent_requests import AGENTS, Headers
from toolbridge.policy.session_key import AFFINITY_HEADERS, SESSION_HEADERS

RETRY_COUNT = "x-stainless-retry-count"
"""The SDKs of Anthropic and OpenAI: 0 for the first attempt, then 1, 2 and so on.

Claude Code counts by itself and always sends 0.
"""
REPEAT_HEADERS = (RETRY_COUNT, "user-agent", *SESSION_HEADERS, *AFFINITY_HEADERS)
"""The client's headers that are read here."""


def is_retry(headers: Headers) -> bool:
    """Return whether the client repeats a request that it has sent before."""
    count = headers.get(RETRY_COUNT, "")
    if count.isdigit() and int(count) > 0:
        return True
    user_agent = headers.get("user-agent", "").lower()
    is_agent = any(one.user_agent and user_agent.startswith(one.user_agent) for one in AGENTS)
    return is_agent and any(headers.get(name) for name in (*SESSION_HEADERS, *AFFINITY_HEADERS))
