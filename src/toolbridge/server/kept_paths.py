"""Which requests have an answer that is kept.

`keeps_answer` is called for every request and reads only headers. A request that it does not select
is served without a log.
"""

import re

from toolbridge.server.http import IncomingRequest
from toolbridge.server_settings import ServerSettings

RESUME = "x-toolbridge-resume"
"""The header by which a client asks for a resumable answer: seconds, `on` or `off`."""
_KEPT_PATHS = re.compile(
    r"/v1/(messages|chat/completions|completions|responses|responses/compact)|/api/(chat|generate)"
    r"|/v1(beta\d?|alpha)?/models/.+:(stream)?[gG]enerateContent"
)


def keeps_answer(request: IncomingRequest, config: ServerSettings) -> bool:
    """Return whether the answer must be kept, or is one that was kept."""
    headers = request.head.headers
    asked = b"idempotency-key" in headers or b"x-toolbridge-resume" in headers
    if not asked and not config.resume_grace and b"last-event-id" not in headers:
        return False
    if request.method != "POST" or _KEPT_PATHS.fullmatch(request.path) is None:
        return False
    off = request.header(RESUME).lower() in {"off", "0"}
    return not off or b"idempotency-key" in headers
