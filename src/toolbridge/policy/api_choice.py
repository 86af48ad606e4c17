"""Which of a provider's APIs serves a request, where it has several.

OpenAI has Chat Completions and Responses. A client of either is served in its own API, because that
needs no translation, unless the model rejects the request there.
"""

from toolbridge.core.messages import Request
from toolbridge.policy.model_facts import KnownModel

CHAT = "openai_chat"


def accepts_in(api: str, known: KnownModel, request: Request, model: str = "") -> bool:
    """Return whether the model accepts `request` in `api`.

    OpenAI chat: only search models (`gpt-5-search-api`) accept `web_search_options`.

    OpenAI chat, from gpt-5.4 on: "Function tools with reasoning_effort are not supported … use
    /v1/responses or set reasoning_effort to 'none'", also where the request names no effort.
    """
    if api != CHAT:
        return True
    if "search" not in model and any(tool.hosted and tool.server for tool in request.tools):
        return False
    if not known.api:
        return True
    if known.api == "responses":
        return False
    think = request.think
    off = think.mode == "off" or think.effort == "none"
    return not request.tools or (off and known.always_thinks is not True)
