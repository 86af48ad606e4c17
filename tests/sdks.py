"""The official SDKs as clients, one class each, with one way to ask them all.

A conversation is kept as the SDK's own users keep it: what came back is appended as it is, and
results are sent in the shapes that the SDK documents.
"""

import base64
import json
import ssl
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import anthropic
import ollama
import openai
from google import genai
from google.genai import types

# Nothing here is encrypted, and every client would read all the world's certificates for itself.
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
# A red dot, 2 by 2.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR42mP4z8AARAwQCgAf7gP9Y167WwAAAABJRU5ErkJggg=="
)
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
    "required": ["city"],
}


@dataclass(frozen=True)
class Tool:
    name: str = "get_weather"
    description: str = "The weather in a city."
    schema: dict = field(default_factory=lambda: WEATHER)


@dataclass
class Said:
    """An answer, as the SDK's user sees it."""

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, dict]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    stop: str = ""
    """In the words of `core.messages.StopReason`."""
    input: int = 0
    """Every token of the prompt, read from a cache or not."""
    output: int = 0
    cached: int = 0
    pieces: int = 0
    """How many events the stream had; 0 without one."""


class Conversation(ABC):
    """A conversation with the model at `url`, held through one SDK."""

    api = ""

    def __init__(
        self,
        url: str,
        *,
        model: str = "test-model",
        tools: tuple[Tool, ...] = (),
        system: str = "",
        max_tokens: int = 2000,
        think: bool = False,
        choice: str = "",
    ) -> None:
        self.url = url
        self.model = model
        self.tools = tools
        self.system = system
        self.max_tokens = max_tokens
        self.think = think
        self.choice = choice
        """`required`, or the name of the tool that must be called."""
        self.open()
        self.begin()

    def begin(self) -> None:
        """Forget what was said; the connection stays."""
        self.turns: list = []
        self.last = Said()

    async def ask(self, text: str, *, stream: bool = True, image: bytes | None = None) -> Said:
        self.say(text, image)
        return await self.go_on(stream=stream)

    async def answer(self, *results: str, stream: bool = True) -> Said:
        """Send the results of the last calls back."""
        self.tell(list(results))
        return await self.go_on(stream=stream)

    async def go_on(self, *, stream: bool) -> Said:
        self.last = await (self.streamed() if stream else self.whole())
        return self.last

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    def open(self) -> None: ...
    @abstractmethod
    async def close(self) -> None: ...
    @abstractmethod
    def say(self, text: str, image: bytes | None) -> None: ...
    @abstractmethod
    def tell(self, results: list[str]) -> None: ...
    @abstractmethod
    async def streamed(self) -> Said: ...
    @abstractmethod
    async def whole(self) -> Said: ...


class Anthropic(Conversation):
    api = "anthropic"
    stops: ClassVar = {"end_turn": "end", "max_tokens": "length"}

    def open(self) -> None:
        self.sdk = anthropic.AsyncAnthropic(
            base_url=self.url, api_key="none", max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(verify=PLAIN),
        )  # fmt: skip

    async def close(self) -> None:
        await self.sdk.close()

    def say(self, text, image) -> None:
        content: list = []
        if image:
            source = {"type": "base64", "media_type": "image/png", "data": _base64(image)}
            content.append({"type": "image", "source": source})
        self.turns.append({"role": "user", "content": [*content, {"type": "text", "text": text}]})

    def tell(self, results) -> None:
        content = [
            {"type": "tool_result", "tool_use_id": id, "content": result}
            for id, result in zip(self.last.ids, results, strict=True)
        ]
        self.turns.append({"role": "user", "content": content})

    def _request(self) -> dict:
        request: dict = {
            "model": self.model, "max_tokens": self.max_tokens, "messages": self.turns,
        }  # fmt: skip
        if self.tools:
            request["tools"] = [
                {"name": t.name, "description": t.description, "input_schema": t.schema}
                for t in self.tools
            ]
        if self.system:
            request["system"] = self.system
        if self.think:
            request["thinking"] = {"type": "enabled", "budget_tokens": 1024}
        if self.choice == "required":
            request["tool_choice"] = {"type": "any"}
        elif self.choice:
            request["tool_choice"] = {"type": "tool", "name": self.choice}
        return request

    async def streamed(self) -> Said:
        pieces = 0
        async with self.sdk.messages.stream(**self._request()) as stream:
            async for _ in stream:
                pieces += 1
            message = await stream.get_final_message()
        return self._read(message, pieces)

    async def whole(self) -> Said:
        return self._read(await self.sdk.messages.create(**self._request()), 0)

    def _read(self, message, pieces: int) -> Said:
        kept = [block.model_dump(exclude_none=True) for block in message.content]
        self.turns.append({"role": "assistant", "content": kept})
        calls = [block for block in message.content if block.type == "tool_use"]
        usage = message.usage
        cached = usage.cache_read_input_tokens or 0
        return Said(
            text="".join(b.text for b in message.content if b.type == "text"),
            thinking="".join(b.thinking for b in message.content if b.type == "thinking"),
            calls=[(call.name, call.input) for call in calls],
            ids=[call.id for call in calls],
            stop=self.stops.get(message.stop_reason, message.stop_reason),
            input=usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0),
            output=usage.output_tokens,
            cached=cached,
            pieces=pieces,
        )


class OpenAIChat(Conversation):
    api = "openai_chat"
    stops: ClassVar = {"stop": "end", "tool_calls": "tool_use"}

    def open(self) -> None:
        self.sdk = openai.AsyncOpenAI(
            base_url=self.url + "/v1", api_key="none", max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=PLAIN),
        )  # fmt: skip

    def begin(self) -> None:
        super().begin()
        if self.system:
            self.turns.append({"role": "system", "content": self.system})

    async def close(self) -> None:
        await self.sdk.close()

    def say(self, text, image) -> None:
        content: list | str = text
        if image:
            link = {"url": f"data:image/png;base64,{_base64(image)}"}
            content = [{"type": "image_url", "image_url": link}, {"type": "text", "text": text}]
        self.turns.append({"role": "user", "content": content})

    def tell(self, results) -> None:
        for id, result in zip(self.last.ids, results, strict=True):
            self.turns.append({"role": "tool", "tool_call_id": id, "content": result})

    def _request(self) -> dict:
        request: dict = {
            "model": self.model, "max_tokens": self.max_tokens, "messages": self.turns,
        }  # fmt: skip
        if self.tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": t.name, "description": t.description, "parameters": t.schema,
                    },
                }
                for t in self.tools
            ]  # fmt: skip
        if self.think:
            request["reasoning_effort"] = "low"
        if self.choice == "required":
            request["tool_choice"] = "required"
        elif self.choice:
            request["tool_choice"] = {"type": "function", "function": {"name": self.choice}}
        return request

    async def streamed(self) -> Said:
        said = Said()
        calls: dict[int, dict] = {}
        stream = await self.sdk.chat.completions.create(
            **self._request(), stream=True, stream_options={"include_usage": True}
        )
        async for chunk in stream:
            said.pieces += 1
            if chunk.usage:
                _count_chat(said, chunk.usage)
            for choice in chunk.choices:
                said.stop = choice.finish_reason or said.stop
                said.text += choice.delta.content or ""
                said.thinking += getattr(choice.delta, "reasoning_content", None) or ""
                for delta in choice.delta.tool_calls or []:
                    call = calls.setdefault(delta.index, {"id": "", "name": "", "json": ""})
                    call["id"] += delta.id or ""
                    call["name"] += delta.function.name or ""
                    call["json"] += delta.function.arguments or ""
        return self._finish(said, [(c["id"], c["name"], c["json"]) for c in calls.values()])

    async def whole(self) -> Said:
        reply = await self.sdk.chat.completions.create(**self._request())
        choice = reply.choices[0]
        said = Said(
            text=choice.message.content or "",
            thinking=getattr(choice.message, "reasoning_content", None) or "",
            stop=choice.finish_reason,
        )
        _count_chat(said, reply.usage)
        found = choice.message.tool_calls or []
        return self._finish(said, [(c.id, c.function.name, c.function.arguments) for c in found])

    def _finish(self, said: Said, calls: list[tuple[str, str, str]]) -> Said:
        turn: dict = {"role": "assistant", "content": said.text or None}
        if calls:
            turn["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": text}}
                for id, name, text in calls
            ]
        self.turns.append(turn)
        said.calls = [(name, json.loads(text)) for _, name, text in calls]
        said.ids = [id for id, *_ in calls]
        said.stop = self.stops.get(said.stop, said.stop)
        return said


def _count_chat(said: Said, usage) -> None:
    said.input, said.output = usage.prompt_tokens, usage.completion_tokens
    if usage.prompt_tokens_details:
        said.cached = usage.prompt_tokens_details.cached_tokens or 0


class OpenAIResponses(Conversation):
    api = "openai_responses"

    def open(self) -> None:
        self.sdk = openai.AsyncOpenAI(
            base_url=self.url + "/v1", api_key="none", max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=PLAIN),
        )  # fmt: skip

    async def close(self) -> None:
        await self.sdk.close()

    def say(self, text, image) -> None:
        content: list = []
        if image:
            link = f"data:image/png;base64,{_base64(image)}"
            content.append({"type": "input_image", "image_url": link, "detail": "auto"})
        content.append({"type": "input_text", "text": text})
        self.turns.append({"role": "user", "content": content})

    def tell(self, results) -> None:
        for id, result in zip(self.last.ids, results, strict=True):
            self.turns.append({"type": "function_call_output", "call_id": id, "output": result})

    def _request(self) -> dict:
        request: dict = {
            "model": self.model, "max_output_tokens": self.max_tokens, "input": self.turns,
        }  # fmt: skip
        if self.tools:
            request["tools"] = [
                {
                    "type": "function", "name": t.name, "description": t.description,
                    "parameters": t.schema, "strict": False,
                }
                for t in self.tools
            ]  # fmt: skip
        if self.system:
            request["instructions"] = self.system
        if self.think:
            request["reasoning"] = {"effort": "low", "summary": "auto"}
        if self.choice == "required":
            request["tool_choice"] = "required"
        elif self.choice:
            request["tool_choice"] = {"type": "function", "name": self.choice}
        return request

    async def streamed(self) -> Said:
        pieces = 0
        final = None
        stream = await self.sdk.responses.create(**self._request(), stream=True)
        async for event in stream:
            pieces += 1
            if event.type in {"response.completed", "response.incomplete"}:
                final = event.response
            elif event.type == "response.failed":
                raise openai.APIError(event.response.error.message, None, body=None)
        assert final is not None, "the stream had no end"
        return self._read(final, pieces)

    async def whole(self) -> Said:
        return self._read(await self.sdk.responses.create(**self._request()), 0)

    def _read(self, response, pieces: int) -> Said:
        self.turns += [item.model_dump(exclude_none=True) for item in response.output]
        calls = [item for item in response.output if item.type == "function_call"]
        cut = response.incomplete_details and response.incomplete_details.reason
        return Said(
            text=response.output_text,
            thinking="".join(
                part.text
                for item in response.output
                if item.type == "reasoning"
                for part in [*(item.summary or []), *(item.content or [])]
            ),
            calls=[(call.name, json.loads(call.arguments)) for call in calls],
            ids=[call.call_id for call in calls],
            stop={"max_output_tokens": "length"}.get(cut, "tool_use" if calls else "end"),
            input=response.usage.input_tokens,
            output=response.usage.output_tokens,
            cached=response.usage.input_tokens_details.cached_tokens,
            pieces=pieces,
        )


class Gemini(Conversation):
    api = "gemini"
    stops: ClassVar = {"STOP": "end", "MAX_TOKENS": "length"}

    def open(self) -> None:
        options = types.HttpOptions(
            base_url=self.url, client_args={"verify": PLAIN}, async_client_args={"ssl": PLAIN}
        )
        self.sdk = genai.Client(api_key="none", http_options=options).aio

    async def close(self) -> None:
        await self.sdk.aclose()

    def say(self, text, image) -> None:
        parts = [types.Part.from_bytes(data=image, mime_type="image/png")] if image else []
        self.turns.append(types.Content(role="user", parts=[*parts, types.Part(text=text)]))

    def tell(self, results) -> None:
        parts = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=id, name=name, response={"result": result}
                )
            )
            for id, (name, _), result in zip(self.last.ids, self.last.calls, results, strict=True)
        ]
        self.turns.append(types.Content(role="user", parts=parts))

    def _request(self) -> dict:
        config = types.GenerateContentConfig(
            max_output_tokens=self.max_tokens,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        if self.tools:
            declared = [
                types.FunctionDeclaration(
                    name=t.name, description=t.description, parameters_json_schema=t.schema
                )
                for t in self.tools
            ]
            config.tools = [types.Tool(function_declarations=declared)]
        if self.system:
            config.system_instruction = self.system
        if self.think:
            config.thinking_config = types.ThinkingConfig(
                include_thoughts=True, thinking_budget=1024
            )
        if self.choice:
            names = None if self.choice == "required" else [self.choice]
            calling = types.FunctionCallingConfig(mode="ANY", allowed_function_names=names)
            config.tool_config = types.ToolConfig(function_calling_config=calling)
        return {"model": self.model, "contents": self.turns, "config": config}

    async def streamed(self) -> Said:
        said = Said()
        parts: list = []
        async for chunk in await self.sdk.models.generate_content_stream(**self._request()):
            said.pieces += 1
            parts += self._take(said, chunk)
        return self._finish(said, parts)

    async def whole(self) -> Said:
        said = Said()
        parts = self._take(said, await self.sdk.models.generate_content(**self._request()))
        return self._finish(said, parts)

    def _take(self, said: Said, reply) -> list:
        if usage := reply.usage_metadata:
            said.input = usage.prompt_token_count or 0
            said.output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
            said.cached = usage.cached_content_token_count or 0
        for candidate in reply.candidates or []:
            if candidate.finish_reason:
                said.stop = candidate.finish_reason.value
            if candidate.content and candidate.content.parts:
                return candidate.content.parts
        return []

    def _finish(self, said: Said, parts: list) -> Said:
        self.turns.append(types.Content(role="model", parts=parts))
        for part in parts:
            if part.function_call:
                said.calls.append((part.function_call.name, part.function_call.args))
                said.ids.append(part.function_call.id)
            elif part.thought:
                said.thinking += part.text or ""
            else:
                said.text += part.text or ""
        said.stop = "tool_use" if said.calls else self.stops.get(said.stop, said.stop)
        return said


class Ollama(Conversation):
    api = "ollama"
    stops: ClassVar = {"stop": "end"}

    def open(self) -> None:
        self.sdk = ollama.AsyncClient(host=self.url, verify=PLAIN)

    def begin(self) -> None:
        super().begin()
        if self.system:
            self.turns.append({"role": "system", "content": self.system})

    async def close(self) -> None:
        await self.sdk.close()

    def say(self, text, image) -> None:
        turn: dict = {"role": "user", "content": text}
        self.turns.append(turn | ({"images": [image]} if image else {}))

    def tell(self, results) -> None:
        for (name, _), result in zip(self.last.calls, results, strict=True):
            self.turns.append({"role": "tool", "tool_name": name, "content": result})

    def _request(self) -> dict:
        request: dict = {
            "model": self.model, "messages": self.turns,
            "options": {"num_predict": self.max_tokens},
        }  # fmt: skip
        if self.tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": t.name, "description": t.description, "parameters": t.schema,
                    },
                }
                for t in self.tools
            ]  # fmt: skip
        if self.think:
            request["think"] = True
        return request

    async def streamed(self) -> Said:
        said = Said()
        calls: list = []
        last = None
        async for part in await self.sdk.chat(**self._request(), stream=True):
            said.pieces += 1
            self._take(said, calls, part)
            last = part
        assert last is not None
        assert last.done, "the stream had no end"
        return self._finish(said, calls)

    async def whole(self) -> Said:
        said = Said()
        calls: list = []
        self._take(said, calls, await self.sdk.chat(**self._request()))
        return self._finish(said, calls)

    def _take(self, said: Said, calls: list, part) -> None:
        said.text += part.message.content or ""
        said.thinking += part.message.thinking or ""
        calls += part.message.tool_calls or []
        said.stop = part.done_reason or said.stop
        said.input = part.prompt_eval_count or said.input
        said.output = part.eval_count or said.output

    def _finish(self, said: Said, calls: list) -> Said:
        turn: dict = {"role": "assistant", "content": said.text}
        self.turns.append(turn | ({"tool_calls": calls} if calls else {}))
        said.calls = [(call.function.name, dict(call.function.arguments)) for call in calls]
        said.ids = [str(n) for n, _ in enumerate(calls)]
        said.stop = "tool_use" if said.calls else self.stops.get(said.stop, said.stop)
        return said


SDKS: dict[str, type[Conversation]] = {
    sdk.api: sdk for sdk in (Anthropic, OpenAIChat, OpenAIResponses, Gemini, Ollama)
}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
