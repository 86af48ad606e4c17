"""Errors of AWS services: rejections over HTTP, and exceptions inside an event stream.

Amazon Bedrock, "Common errors": the type of a rejection is in the header `x-amzn-ErrorType`, before
a colon, and the body is `{"message": …}`. Inside a stream the same types begin with a small letter.
The codec of the Converse API and Anthropic's models on Bedrock share this module.
"""

from collections.abc import Mapping

import msgspec

from toolbridge.core.json import maybe_object
from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import read_retry_after
from toolbridge.wire.rejections import read_error, read_overflow

_KINDS = {
    "throttlingexception": "rate_limited",
    "servicequotaexceededexception": "rate_limited",
    "toomanyrequestsexception": "rate_limited",
    "modelnotreadyexception": "overloaded",
    "serviceunavailableexception": "overloaded",
    "modeltimeoutexception": "timed_out",
    "modelerrorexception": "broken_call",
    "modelstreamerrorexception": "broken_call",
}
"""Type in small letters → our kind; the others are rejections with their status."""
_STATUSES = {
    "validationexception": 400,
    "accessdeniedexception": 403,
    "unrecognizedclientexception": 403,
    "invalidsignatureexception": 403,
    "expiredtokenexception": 403,
    "resourcenotfoundexception": 404,
}
"""Type → its status, for exceptions inside a stream that a retry does not help against."""
_REMEDIES = {
    "expiredtokenexception": "the credentials have expired: sign in again (`aws sso login`), or set "
    "a new AWS_SESSION_TOKEN or AWS_BEARER_TOKEN_BEDROCK",
    "unrecognizedclientexception": "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
    "AWS_SESSION_TOKEN, or the provider's `key`",
    "invalidsignatureexception": "check AWS_SECRET_ACCESS_KEY, the provider's `region`, and the "
    "clock of this machine",
    "accessdeniedexception": "allow bedrock:InvokeModel and bedrock:InvokeModelWithResponseStream "
    "for these credentials, and request access to the model in the Bedrock console of this region",
    "resourcenotfoundexception": "check the model id and the provider's `region`: a model exists in "
    "some regions only",
}
_ON_DEMAND = "on-demand throughput"
_ON_DEMAND_REMEDY = (
    "use an inference profile: the model id with the prefix of your region (us., eu., apac., jp., "
    "au., us-gov.) or with global."
)
_BAD_ID = "model identifier is invalid"


def read_aws_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    """Return the problem of an HTTP error; the names of `headers` are in small letters."""
    found = maybe_object(body) or {}
    _, text = read_error(body)
    text = text or str(found.get("Message") or "") or f"HTTP {status} without an error text"
    type = headers.get("x-amzn-errortype") or str(found.get("__type", "")).rpartition("#")[2]
    problem = read_aws_problem(type.partition(":")[0], text, status)
    return msgspec.structs.replace(problem, retry_after=read_retry_after(headers))


def read_aws_problem(type: str, text: str, status: int = 0) -> Problem:
    """Return the problem of an error type; `status` is 0 for an exception inside a stream."""
    name = type.lower()
    if overflow := read_overflow(text):
        return Problem("context_overflow", overflow, status=status)
    text = text or f"{type or 'an error'} without a text"
    kind = _KINDS.get(name) or ("rate_limited" if status == 429 else "rejected")
    if kind == "rejected":
        status = status or _STATUSES.get(name, 0)
    remedy = _remedy(name, text)
    return Problem(kind, f"{text} → {remedy}" if remedy else text, status=status)


def needs_profile(problem: Problem) -> bool:
    """Return whether the model can be used only through an inference profile."""
    return problem.status == 400 and _ON_DEMAND in problem.text


def _remedy(name: str, text: str) -> str:
    if _ON_DEMAND in text:
        return _ON_DEMAND_REMEDY
    if _BAD_ID in text:
        return _REMEDIES["resourcenotfoundexception"]
    if "security token" in text and "expired" in text:
        return _REMEDIES["expiredtokenexception"]
    return _REMEDIES.get(name, "")
