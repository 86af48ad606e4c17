"""Our `Request`, as a body for Ollama's `/api/chat`.

Cache marks are not sent and not reported: the server keeps the prefix of a prompt by itself.
Tools and messages of one conversation are therefore always written in the same form and order.
"""

import msgspec

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.encode_turns import TurnEncoder
from toolbridge.codecs.ollama.generate import PATH, completes, encode_generate
from toolbridge.codecs.ollama.output import encode_output
from toolbridge.codecs.ollama.quirks import Quirks, read_quirks
from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.codecs.ollama.thinking import encode_thinking
from toolbridge.codecs.ollama.tools import encode_choice, encode_tools
from toolbridge.core.codec import Outgoing, Target
from toolbridge.core.encoded_turns import EncodedTurns, encode_few
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Loss, Request, Sampling, ToolChoice
from toolbridge.core.prefix_memo import LONG
from toolbridge.core.shared_fields import carry
from toolbridge.core.shared_texts import join_shared
from toolbridge.core.shared_tools import identity_of
from toolbridge.core.source import own_words
from toolbridge.core.steps import Steps, stepwise
from toolbridge.core.written_list import preceded

_encoded: EncodedTurns[str] = EncodedTurns()
_NO_QUIRKS = Quirks()
_NO_SAMPLING = Sampling()
_FREE_CHOICE = ToolChoice()


@stepwise
def encode_request(request: Request, target: Target) -> Steps[Outgoing]:
    """Return the body for `target` and what Ollama's API cannot express."""
    quirks = read_quirks(target.quirks) if target.quirks else _NO_QUIRKS
    model = target.model or request.model
    losses: list[Loss] = []
    turns = TurnEncoder(request.tools, target, model, losses)
    if len(request.turns) < LONG:
        messages = encode_few(request.turns, turns)
    else:
        context = (model, target.capabilities, identity_of(request.tools))
        messages = yield from _encoded.encode(request.turns, context, turns)
    return _RequestEncoder(request, target, quirks, losses).encode(model, messages)


class _RequestEncoder(msgspec.Struct, eq=False):
    _request: Request
    _target: Target
    _quirks: Quirks
    _losses: list[Loss]

    def encode(self, model: str, messages: list[Json]) -> Outgoing:
        request = self._request
        if request.system or request.tool_choice != _FREE_CHOICE:
            messages = self._with_system(messages)
        body: JsonObject = {"model": model, "messages": messages}
        if request.tools and (tools := encode_tools(request, self._lose)):
            body["tools"] = tools
        think = encode_thinking(request, self._target, self._quirks, self._lose)
        if think is not None:
            body["think"] = think
        if request.output is not None:
            body["format"] = encode_output(request.output, request.origin, self._losses)
        if request.sampling != _NO_SAMPLING:
            self._sample(body)
        # Ollama, docs/api: with `truncate: false` a prompt that is too long is a 400.
        if self._quirks.no_truncate:
            body["truncate"] = False
        if options := self._options(body):
            body["options"] = options
        body["stream"] = request.stream
        if request.user:
            why = "Ollama's API has no field for the user"
            self._losses.append(Loss("user", why, minor=True))
        if request.completion is not None and completes(request, self._target):
            return Outgoing(PATH, encode_generate(body, request), tuple(self._losses))
        return Outgoing("/api/chat", body, tuple(self._losses))

    def _lose(self, what: str, why: str) -> None:
        self._losses.append(Loss(what, why))

    def _with_system(self, messages: list[Json]) -> list[Json]:
        """Return `messages` after the system prompt and the order to call tools."""
        choice = self._request.tool_choice
        order = "" if choice == _FREE_CHOICE else encode_choice(self._request, self._lose)
        if not order and not self._request.system:
            return messages
        written = [own_words(part, ORIGIN) for part in self._request.system]
        if not order and written and all(written):
            return preceded([*written], messages)
        texts = [part.text for part in self._request.system if part.text]
        texts += [order] if order else []
        # Ollama, docs/modelfile: a system message replaces the SYSTEM of the Modelfile.
        if texts:
            first: JsonObject = {"role": "system", "content": join_shared("\n\n", texts)}
            return preceded([first], messages)
        return messages

    def _sample(self, body: JsonObject) -> None:
        sampling = self._request.sampling
        if sampling.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": sampling.logprobs}
        if sampling.n is not None:
            self._lose("sampling.n", "Ollama gives one answer to a request")

    def _options(self, body: JsonObject) -> JsonObject:
        """Return `options`, and add the fields beside it that the client or the configuration has."""
        request = self._request
        options: JsonObject = {}
        if self._target.window > 0:
            # Ollama, docs/faq: the default window is 4k on a small GPU, and longer prompts are cut.
            options["num_ctx"] = self._target.window
        if request.max_tokens is not None:
            options["num_predict"] = request.max_tokens
        if request.sampling != _NO_SAMPLING:
            for name in (*shapes.SAMPLING, *shapes.SAMPLING_COUNTS):
                if (value := getattr(request.sampling, name)) is not None:
                    options[name] = value
        if request.stop:
            options["stop"] = list(request.stop)
        if request.extra:
            self._restore(body, options)
        if self._target.options:
            self._configure(body, options)
        return options

    def _restore(self, body: JsonObject, options: JsonObject) -> None:
        """Put back the fields that only Ollama's clients send; report those of other clients."""
        if self._request.origin != ORIGIN:
            self._losses += carry(self._request, ORIGIN)[1]
            return
        for name, value in self._request.extra.items():
            if name in shapes.GENERATE_EXTRAS and completes(self._request, self._target):
                continue
            if name in shapes.GENERATE_EXTRAS:
                self._lose(name, "only /api/generate has this field, and the request is a chat")
            elif name == "options" and isinstance(value, dict):
                options |= value
            elif name not in {shapes.LOAD, shapes.GENERATE}:
                body[name] = value

    def _configure(self, body: JsonObject, options: JsonObject) -> None:
        """Add the configured fields; they override those of the request."""
        for name, value in self._target.options.items():
            if name == "options" and isinstance(value, dict):
                options |= value
            elif name in shapes.OPTIONS:
                options[name] = value
            else:
                body[name] = value
