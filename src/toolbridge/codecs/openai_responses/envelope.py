"""The response object: the body of a whole answer, and part of the first and the last events.

OpenAI Responses, response object: it repeats the settings of the request; the SDKs require these
fields. The status is `in_progress`, `completed`, `incomplete` or `failed`.
"""

from toolbridge.codecs.openai_responses.encode_turns import TurnEncoder
from toolbridge.codecs.openai_responses.output import encode_format
from toolbridge.codecs.openai_responses.quirks import Quirks
from toolbridge.codecs.openai_responses.rejections import encode_failure
from toolbridge.codecs.openai_responses.shapes import ORIGIN, REASONS
from toolbridge.codecs.openai_responses.tools import encode_choice, encode_tools
from toolbridge.codecs.openai_responses.usage import encode_tool_usage, encode_usage
from toolbridge.core.codec import AnswerContext, Target
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Problem, Request, StopReason
from toolbridge.core.steps import finish
from toolbridge.core.usage import Usage

_ECHOED: JsonObject = {
    "background": False,
    "max_tool_calls": None,
    "previous_response_id": None,
    "service_tier": "default",
    "store": False,
    "truncation": "disabled",
    "metadata": {},
}
"""Fields of `Request.extra` that a response repeats, and their defaults."""


class ResponseEnvelope:
    """The response object of one answer, in every state."""

    def __init__(self, asked: AnswerContext, id: str, model: str) -> None:
        self.id = response_id(id)
        self._asked = asked
        self._head: JsonObject = {
            "id": self.id,
            "object": "response",
            "created_at": int(asked.at),
            "model": asked.request.model or model,
        }
        self._echo = _echo(asked.request)

    def begun(self) -> JsonObject:
        """Return the response while the answer is being written."""
        return self._object("in_progress", [])

    def ended(self, reason: StopReason, usage: Usage, output: list[Json]) -> JsonObject:
        """Return the response of a finished answer."""
        why = REASONS.get(reason)
        response = self._object("incomplete" if why else "completed", output)
        response["incomplete_details"] = {"reason": why} if why else None
        response["completed_at"] = None if why else int(self._asked.at)
        # OpenAI Responses: only the last event has the usage. Codex reads it there.
        response["usage"] = encode_usage(usage, self._asked.estimate)
        return response | encode_tool_usage(usage)

    def failed(self, problem: Problem, usage: Usage, output: list[Json]) -> JsonObject:
        """Return the response of an answer that failed."""
        response = self._object("failed", output)
        response["error"] = encode_failure(problem)
        if usage != Usage():
            response["usage"] = encode_usage(usage, self._asked.estimate)
        return response

    def _object(self, status: str, output: list[Json]) -> JsonObject:
        state: JsonObject = {
            "status": status,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "output": output,
            "usage": None,
        }
        return self._head | state | self._echo


def response_id(id: str) -> str:
    """Return an id with the prefix that OpenAI's clients expect."""
    return id if id.startswith("resp_") else f"resp_{id}"


def _echo(request: Request) -> JsonObject:
    """Return the settings of the request as a response repeats them."""
    quirks = Quirks()
    extra = request.extra if request.origin == ORIGIN else {}
    instructions, _ = finish(TurnEncoder(_opening(request), Target(), quirks).encode())
    plain: JsonObject = {"type": "text"}
    format = plain if request.output is None else encode_format(request.output)
    given = extra.get("text")
    text: JsonObject = given | {"format": format} if isinstance(given, dict) else {"format": format}
    # OpenAI Responses: settings that the request left out are repeated with their defaults.
    temperature, top_p = request.sampling.temperature, request.sampling.top_p
    parallel = request.tool_choice.parallel
    return {
        "instructions": instructions or None,
        "max_output_tokens": request.max_tokens,
        "parallel_tool_calls": True if parallel is None else parallel,
        "prompt_cache_key": request.session or None,
        "reasoning": {
            "effort": request.think.effort or None,
            "summary": "auto" if request.think.show else None,
        },
        "safety_identifier": request.user or None,
        "temperature": 1.0 if temperature is None else temperature,
        "text": text,
        "tool_choice": encode_choice(request, quirks, _ignore).get("tool_choice", "auto"),
        "tools": encode_tools(request, quirks, _ignore),
        "top_logprobs": request.sampling.logprobs or 0,
        "top_p": 1.0 if top_p is None else top_p,
        **{name: extra.get(name, value) for name, value in _ECHOED.items()},
        # OpenAI Responses: `store` is true by default. Only the gateway's own clients can have a
        # stored response; the answer of a request in another API is stored nowhere.
        "store": request.origin == ORIGIN and extra.get("store") is not False,
    }


def _ignore(_what: str, _why: str) -> None:
    """Record no loss: the client sent these settings, and gets them back."""


def _opening(request: Request) -> Request:
    """Return a request with only the text that becomes `instructions`."""
    return Request(model=request.model, system=request.system[:1], origin=request.origin)
