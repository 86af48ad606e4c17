"""Turns to messages of Chat Completions.

One turn may become several messages: each result is a `tool` message (OpenAI chat, messages: all
calls of an assistant message are answered before any other role). Thoughts and calls are fields of
the assistant message; `content` has the rest.
"""

import re
from hashlib import blake2b

import msgspec
from typing_extensions import TypeIs

from toolbridge.codecs.openai_chat.content import ContentBuilder, PartEncoder, simplified
from toolbridge.codecs.openai_chat.shapes import MESSAGE, ORIGIN
from toolbridge.codecs.openai_chat.thinking import encode_details, encode_seals
from toolbridge.codecs.openai_chat.tools import is_custom
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Opaque,
    Part,
    Result,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.source import own_words

_THOUGHTS = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
"""The fields of an assistant message that contain thoughts; quirks decide which are sent."""
_NO_CALL = (0, "")
_REMINDER = ("<system-reminder>\n", "\n</system-reminder>")


class TurnEncoder(PartEncoder, eq=False):
    """Writes the messages of one request and collects the losses."""

    calls: dict[str, tuple[int, str]] = msgspec.field(default_factory=dict)
    """The position in the history and the name of every call so far, by its id."""

    def system(self, texts: tuple[Text, ...]) -> list[Json]:
        """Return the system messages in front of the conversation."""
        own = self._own_system(texts)
        if own is not None:
            return own
        content = ContentBuilder(self, joint="\n\n", shared=True)
        for i, text in enumerate(texts):
            content.add(f"system.{i}", text)
        return [] if content.empty else [{"role": self._system_role, "content": content.value}]

    def _own_system(self, texts: tuple[Text, ...]) -> list[Json] | None:
        """Return the system messages as the client sent them; None if a text was changed."""
        if not self.own or not texts:
            return None
        messages: list[Json] = []
        for text in texts:
            written = own_words(text, ORIGIN)
            if written is None and text.source is None:  # a text that the gateway added
                written = {"role": self._system_role, "content": text.text}
            if written is None:
                return None
            if "role" not in written:
                continue  # the message of the first text contains this one
            known = written["role"] == "system" or self._quirks.developer_role
            role = written["role"] if known else self._system_role
            messages.append(written | {"role": role, "content": simplified(written["content"])})
        return messages

    def encode(self, number: int, turn: Turn) -> list[Json]:
        """Return the messages of the turn with this number."""
        if turn.role == "user" and len(turn.content) == 1 and not self.own:
            only = turn.content[0]
            if isinstance(only, Text) and not (only.citations or only.cache or only.opaque):
                return [{"role": "user", "content": only.text}]  # as most questions
        where = f"turns.{number}.content"
        if turn.role == "assistant":
            return [self._assistant(where, turn)]
        results: list[tuple[str, JsonObject]] = []
        content = ContentBuilder(self, joint="\n")
        fields: JsonObject = {}
        for i, part in enumerate(turn.content):
            if isinstance(part, Result):
                message = self._result(f"{where}.{i}", part, content)
                results.append((part.call_id, message))
            elif _is_fields(part):
                fields |= part.raw
            else:
                content.add(f"{where}.{i}", part)
        messages: list[Json] = (
            [message for _, message in results] if self.own else [*self._in_call_order(results)]
        )
        if results and content.empty and not fields:
            return messages
        if turn.role == "system" and not self._quirks.system_in_place:
            self.lose(f"turns.{number}", "sent as a user message inside <system-reminder> tags")
            return [_reminder(content.text)]
        role = self._system_role if turn.role == "system" else turn.role
        return [*messages, {"role": role, **fields, "content": content.value}]

    # ── messages ──

    @property
    def _system_role(self) -> str:
        return "developer" if self._quirks.developer_role else "system"

    def _in_call_order(self, results: list[tuple[str, JsonObject]]) -> list[JsonObject]:
        """Return results in the order of their calls: some chat templates ignore the ids."""
        if len(results) > 1:
            calls, last = self.calls, (len(self.calls), "")
            results = sorted(results, key=lambda result: calls.get(result[0], last)[0])
        return [message for _, message in results]

    def _result(self, where: str, result: Result, after: "ContentBuilder") -> JsonObject:
        own = self._own_result(result)
        if own is not None:
            return own
        name = result.name or self.calls.get(result.call_id, _NO_CALL)[1]
        content = ContentBuilder(self, joint="\n")
        for i, part in enumerate(result.content):
            inner = f"{where}.content.{i}"
            if isinstance(part, Image) and not self._quirks.images_in_results:
                # OpenAI chat, tool messages: text parts only. Images go to the next user message.
                after.add(inner, Text(f"[image from tool {name or result.call_id}]"))
                after.add(inner, part)
            else:
                content.add(inner, part)
        if result.is_error:
            content.mark_error()
        message: JsonObject = {"role": "tool", "tool_call_id": self._id(result.call_id)}
        if name and self._quirks.tool_result_name:
            message["name"] = name
        return message | {"content": content.value}

    def _own_result(self, result: Result) -> JsonObject | None:
        """Return the result as the client sent it; None if the provider does not accept that."""
        if self._quirks.nine_character_ids or self._quirks.tool_result_name:
            return None
        written = own_words(result, ORIGIN)
        # A result of the deprecated role `function` becomes a tool message, as its call does.
        if not written or written.get("role") != "tool":
            return None
        if not self._quirks.images_in_results and any(isinstance(p, Image) for p in result.content):
            return None
        return written

    def _own_answer(self, turn: Turn) -> JsonObject | None:
        """Return the assistant message as the client sent it, without its thoughts."""
        written = own_words(turn, ORIGIN)
        if written is None or written.get("function_call"):
            return None
        calls = [part for part in turn.content if isinstance(part, Call)]
        if self._quirks.nine_character_ids or any(call.raw for call in calls):
            return None
        if not calls:
            # OpenAI chat: `content` is required without tool calls; `tool_calls: []` is rejected.
            written |= {"content": written.get("content") or "", "tool_calls": None}
        return {
            name: value
            for name, value in written.items()
            if name not in _THOUGHTS and (name, value) != ("tool_calls", None)
        }

    def _assistant(self, where: str, turn: Turn) -> JsonObject:
        # Several text blocks of an answer are one text here: the model wrote them without a gap.
        content = ContentBuilder(self, joint="")
        thoughts: list[Thinking] = []
        calls: list[Json] = []
        message: JsonObject = {"role": "assistant"}
        for i, part in enumerate(turn.content):
            if isinstance(part, Thinking):
                if self._keeps_thought(f"{where}.{i}", part):
                    thoughts.append(part)
            elif isinstance(part, Call):
                rank, _ = self.calls.get(part.id, (len(self.calls), ""))
                self.calls[part.id] = rank, part.name
                calls.append(self._call(part))
            elif _is_fields(part):
                message |= part.raw
            else:
                content.add(f"{where}.{i}", part)
        message["content"] = None if calls and content.empty else content.value
        if calls:
            message["tool_calls"] = calls
        return (self._own_answer(turn) or message) | self._thoughts(thoughts)

    # ── thoughts and calls ──

    def _keeps_thought(self, where: str, thought: Thinking) -> bool:
        """Return True if the provider accepts the thought; record a loss otherwise."""
        field = self._quirks.thinking_field
        if (field and thought.text) or (self._quirks.reasoning_details and encode_seals(thought)):
            return True
        if thought.text:
            self.lose(where, "this provider does not accept thoughts in the history")
        else:
            self.lose(where, "an encrypted thought can be read only by the API that wrote it")
        return False

    def _thoughts(self, thoughts: list[Thinking]) -> JsonObject:
        fields: JsonObject = {}
        text = "".join(thought.text for thought in thoughts)
        if text and self._quirks.thinking_field:
            fields[self._quirks.thinking_field] = text
        if self._quirks.reasoning_details:
            details = [detail for thought in thoughts for detail in encode_details(thought)]
            if details:
                fields["reasoning_details"] = details
        return fields

    def _call(self, call: Call) -> JsonObject:
        tool = self._tools.get(call.name)
        if is_custom(tool, self._origin, self._quirks):
            input = call.raw or call.arguments.get("input", "")
            text = input if isinstance(input, str) else dumps(input)
            custom: JsonObject = {"name": call.name, "input": text}
            return {"id": self._id(call.id), "type": "custom", "custom": custom}
        # llama.cpp and vLLM parse the arguments of the history: text that is not JSON is wrapped.
        arguments = dumps({"raw": call.raw} if call.raw else call.arguments)
        function: JsonObject = {"name": call.name, "arguments": arguments}
        return {
            "id": self._id(call.id),
            "type": "function",
            "function": function,
            **encode_signature(call.opaque),
        }

    def _id(self, id: str) -> str:
        # Mistral, chat completions: "Tool call id must be a-z, A-Z, 0-9, with a length of 9".
        if not self._quirks.nine_character_ids or re.fullmatch(r"[a-zA-Z0-9]{9}", id):
            return id
        return blake2b(id.encode(), digest_size=5).hexdigest()[:9]


def _reminder(text: str) -> JsonObject:
    before, after = _REMINDER
    return {"role": "user", "content": f"{before}{text}{after}"}


def _is_fields(part: Part) -> TypeIs[Foreign]:
    return isinstance(part, Foreign) and (part.origin, part.kind) == (ORIGIN, MESSAGE)


def encode_signature(opaque: tuple[Opaque, ...]) -> JsonObject:
    """Return the field for Gemini's signature of a call (Gemini, OpenAI compatibility)."""
    for token in opaque:
        if token.kind == "thought_signature" and token.origin.partition("/")[0] == ORIGIN:
            return {"extra_content": {"google": {"thought_signature": token.value}}}
    return {}
