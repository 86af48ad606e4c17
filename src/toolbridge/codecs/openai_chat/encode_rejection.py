"""Our problems as errors, in place of an answer or at the end of one."""

from math import ceil

from toolbridge.codecs.openai_chat import shapes
from toolbridge.core.codec import Rejection
from toolbridge.core.errors import status_of
from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.core.messages import Problem


def encode_rejection(problem: Problem, request_id: str) -> Rejection:
    headers = {"x-request-id": request_id}
    if problem.retry_after is not None:
        headers["retry-after"] = str(ceil(problem.retry_after))
    if problem.kind == "config" or problem.permanent or _is_quota(problem):
        headers["x-should-retry"] = "false"  # without it, clients ask again after 429 and 500
    return Rejection(_status(problem), encode_error(problem), headers)


def _is_quota(problem: Problem) -> bool:
    """Whether a 429 means that there is no money left, and not that one should wait."""
    return problem.kind == "rejected" and problem.status == 429


def _status(problem: Problem) -> int:
    status = status_of(problem)
    if problem.permanent and status >= 500:
        return 400  # clients on the AI SDK repeat any other error of a server, for minutes
    return 503 if status == 529 else status  # 529 is Anthropic's own number


def encode_error(problem: Problem) -> bytes:
    server = "server_error" if status_of(problem) >= 500 else "invalid_request_error"
    type, code = shapes.ERROR_TYPES.get(problem.kind, (server, None))
    if _is_quota(problem):
        type = code = "insufficient_quota"
    text = f"{problem.where}: {problem.text}" if problem.where else problem.text
    error: JsonObject = {
        "message": text,
        "type": type,
        "param": problem.where or None,
        "code": code,
    }
    return dump_bytes({"error": error})
