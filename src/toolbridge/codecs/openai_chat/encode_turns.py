"""Our turns as messages: what one of ours says may take several, one for each result.

Thoughts, calls and results are fields and messages of their own; `encode_parts` has the content.
"""

import re
from hashlib import blake2b

import msgspec
from typing_extensions import TypeIs

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.decode_turns import MESSAGE
from toolbridge.codecs.openai_chat.encode_parts import ContentBuilder, PartEncoder, simple
from toolbridge.codecs.openai_chat.quirks import Quirks
from toolbridge.codecs.openai_chat.shapes import ORIGIN
from toolbridge.core.codec import Target
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Opaque,
    Part,
    Request,
    Result,
    Text,
    Thinking,
    Turn,
)
from toolbridge.core.source import own_words

_THOUGHTS = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
"""The fields of an assistant's message that hold thoughts: providers differ in which they take."""
_REMINDER = ("<system-reminder>\n", "\n</system-reminder>")


class TurnEncoder(PartEncoder):
    """Writes the messages of one request and keeps what could not be said."""

    def __init__(self, request: Request, target: Target, quirks: Quirks) -> None:
        super().__init__(request, target, quirks)
        self._calls: dict[str, Call] = {}
        """The calls so far, by their ids, in their order."""

    def system(self, texts: tuple[Text, ...]) -> list[Json]:
        said = self._own_system(texts)
        if said is not None:
            return said
        content = ContentBuilder(self, joint="\n\n")
        for place, text in enumerate(texts):
            content.add(f"system.{place}", text)
        return [] if content.empty else [{"role": self._system_role, "content": content.value}]

    def _own_system(self, texts: tuple[Text, ...]) -> list[Json] | None:
        """Return the client's own system messages; None where it has none, or they were changed."""
        if not self._own or not texts:
            return None
        messages: list[Json] = []
        for text in texts:
            said = own_words(text, ORIGIN)
            if said is None and text.source is None:  # said by the gateway
                said = {"role": self._system_role, "content": text.text}
            if said is None:
                return None
            if "role" not in said:
                continue  # a further text of a message that was written whole
            known = said["role"] == "system" or self._quirks.developer_role
            role = said["role"] if known else self._system_role
            messages.append(said | {"role": role, "content": simple(said["content"])})
        return messages

    def encode(self, number: int, turn: Turn) -> list[Json]:
        where = f"turns.{number}.content"
        if turn.role == "assistant":
            return [self._assistant(where, turn)]
        results: list[tuple[str, JsonObject]] = []
        content = ContentBuilder(self, joint="\n")
        fields: JsonObject = {}
        for place, part in enumerate(turn.content):
            if isinstance(part, Result):
                message = self._result(f"{where}.{place}", part, content)
                results.append((part.call_id, message))
            elif _is_fields(part):
                fields |= part.raw
            else:
                content.add(f"{where}.{place}", part)
        messages: list[Json] = (
            [message for _, message in results] if self._own else [*self._in_call_order(results)]
        )
        if results and content.empty and not fields:
            return messages
        if turn.role == "system" and not self._quirks.system_in_place:
            self.lose(f"turns.{number}", "the user says it, marked as a reminder")
            return [_reminder(content.text)]
        role = self._system_role if turn.role == "system" else turn.role
        return [*messages, {"role": role, **fields, "content": content.value}]

    # ── messages ──

    @property
    def _system_role(self) -> str:
        return "developer" if self._quirks.developer_role else "system"

    def _in_call_order(self, results: list[tuple[str, JsonObject]]) -> list[JsonObject]:
        """Return results as their calls came: some servers match them by order alone."""
        order = {id: place for place, id in enumerate(self._calls)}
        ranked = sorted(results, key=lambda result: order.get(result[0], len(order)))
        return [message for _, message in ranked]

    def _result(self, where: str, result: Result, after: "ContentBuilder") -> JsonObject:
        said = self._own_result(result)
        if said is not None:
            return said
        call = self._calls.get(result.call_id)
        name = result.name or (call.name if call else "")
        content = ContentBuilder(self, joint="\n")
        for place, part in enumerate(result.content):
            inner = f"{where}.content.{place}"
            if isinstance(part, Image) and not self._quirks.images_in_results:
                # Only text may stand in a result, so its pictures follow in the user's words.
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
        """Return the client's own message, unless the provider takes no such one."""
        if self._quirks.nine_character_ids or self._quirks.tool_result_name:
            return None
        if not self._quirks.images_in_results and any(isinstance(p, Image) for p in result.content):
            return None
        said = own_words(result, ORIGIN)
        # As results were sent before there were tools: `functions` are sent as tools.
        return said if said and said.get("role") == "tool" else None

    def _own_answer(self, turn: Turn) -> JsonObject | None:
        """Return the client's own message of an assistant without its thoughts."""
        calls = [part for part in turn.content if isinstance(part, Call)]
        if self._quirks.nine_character_ids or any(call.raw for call in calls):
            return None
        said = own_words(turn, ORIGIN)
        if said is None or said.get("function_call"):
            return None
        if not calls:
            # Chat Completions refuses an assistant without content, and an empty list of calls.
            said |= {"content": said.get("content") or "", "tool_calls": None}
        return {
            name: value
            for name, value in said.items()
            if name not in _THOUGHTS and (name, value) != ("tool_calls", None)
        }

    def _assistant(self, where: str, turn: Turn) -> JsonObject:
        # Text that a model said in several blocks was one text when it said it.
        content = ContentBuilder(self, joint="")
        thoughts: list[Thinking] = []
        calls: list[Json] = []
        message: JsonObject = {"role": "assistant"}
        for place, part in enumerate(turn.content):
            if isinstance(part, Thinking):
                if self._thought(f"{where}.{place}", part):
                    thoughts.append(part)
            elif isinstance(part, Call):
                self._calls[part.id] = part
                calls.append(self._call(part))
            elif _is_fields(part):
                message |= part.raw
            else:
                content.add(f"{where}.{place}", part)
        message["content"] = None if calls and content.empty else content.value
        if calls:
            message["tool_calls"] = calls
        return (self._own_answer(turn) or message) | self._thoughts(thoughts)

    # ── thoughts and calls ──

    def _thought(self, where: str, thought: Thinking) -> bool:
        """Whether the place takes the thought back."""
        field = self._quirks.thinking_field
        if (field and thought.text) or (self._quirks.reasoning_details and _seals(thought)):
            return True
        why = "this place takes no thoughts back" if thought.text else "only its maker can read it"
        self.lose(where, why)
        return False

    def _thoughts(self, thoughts: list[Thinking]) -> JsonObject:
        fields: JsonObject = {}
        text = "".join(thought.text for thought in thoughts)
        if text and self._quirks.thinking_field:
            fields[self._quirks.thinking_field] = text
        if self._quirks.reasoning_details:
            details = [detail for thought in thoughts for detail in _details(thought)]
            if details:
                fields["reasoning_details"] = details
        return fields

    def _call(self, call: Call) -> JsonObject:
        tool = self._tools.get(call.name)
        if tool and self.is_custom(tool.name):
            input = call.raw or call.arguments.get("input", "")
            text = input if isinstance(input, str) else dumps(input)
            custom: JsonObject = {"name": call.name, "input": text}
            return {"id": self._id(call.id), "type": "custom", "custom": custom}
        # Servers parse the arguments of the past, so what could not be read goes inside an object.
        arguments = dumps({"raw": call.raw} if call.raw else call.arguments)
        function: JsonObject = {"name": call.name, "arguments": arguments}
        return {
            "id": self._id(call.id),
            "type": "function",
            "function": function,
            **encode_signature(call.opaque),
        }

    def _id(self, id: str) -> str:
        if not self._quirks.nine_character_ids or re.fullmatch(r"[a-zA-Z0-9]{9}", id):
            return id
        return blake2b(id.encode(), digest_size=5).hexdigest()[:9]

    def is_custom(self, name: str) -> bool:
        """Whether a tool is offered as one that takes free text."""
        tool = self._tools.get(name)
        return bool(tool and tool.freeform and self._own and self._quirks.custom_tools)


def _reminder(text: str) -> JsonObject:
    before, after = _REMINDER
    return {"role": "user", "content": f"{before}{text}{after}"}


def _is_fields(part: Part) -> TypeIs[Foreign]:
    return isinstance(part, Foreign) and (part.origin, part.kind) == (ORIGIN, MESSAGE)


def encode_signature(opaque: tuple[Opaque, ...]) -> JsonObject:
    """Return the field in which Gemini's signature of a call goes through this API."""
    for token in opaque:
        if token.kind == "thought_signature" and token.origin.partition("/")[0] == ORIGIN:
            return {"extra_content": {"google": {"thought_signature": token.value}}}
    return {}


def _seals(thought: Thinking) -> list[shapes.Detail]:
    return [seal for opaque in thought.opaque if (seal := shapes.write_seal(opaque))]


def _details(thought: Thinking) -> list[Json]:
    """Return a sealed thought as the details that it came in; its text goes to its signature."""
    seals = _seals(thought)
    signed = next((seal for seal in seals if seal.signature), None)
    if signed is not None:
        signed.text = thought.text
    elif seals and thought.text:
        seals.insert(0, shapes.Detail("reasoning.summary", summary=thought.text))
    return [msgspec.to_builtins(seal) for seal in seals]
