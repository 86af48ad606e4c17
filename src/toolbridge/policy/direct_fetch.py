"""Fetches that an agent makes with a request of its own.

Gemini CLI's web_fetch is a request whose only tool is `urlContext`; its text has the user's
instructions and a list of addresses. Models seldom call the tool by themselves: they answer about a
page that they have not read. So the pages are fetched first, and the model answers about them. Where
no page can be read, the answer is empty, and Gemini CLI then fetches the pages itself.
"""

import re

from toolbridge.policy.direct_search import last_text
from toolbridge.policy.server_tool_plan import RunnableTool, ServerToolPlan

# Gemini CLI 0.61.0, web_fetch: the addresses that the client itself has checked, one per line.
_LISTED = re.compile(r"<authorized_urls>(.*?)</authorized_urls>", re.DOTALL)
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)


def direct_addresses(
    plan: ServerToolPlan, *, agent: bool
) -> tuple[RunnableTool, tuple[str, ...]] | None:
    """Return the fetch tool and the addresses of an agent's fetch request; None for any other."""
    request = plan.request
    offered = list(plan.offered.values())
    if not agent or request.origin != "gemini" or len(request.turns) != 1:
        return None
    if len(request.tools) != 1 or len(offered) != 1 or offered[0].tool.kind != "web_fetch":
        return None
    text = last_text(request)
    listed = _LISTED.search(text)
    found = _ADDRESS.findall(listed.group(1) if listed else text)
    return offered[0], tuple(dict.fromkeys(found))
