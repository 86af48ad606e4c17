"""Calls and results of server tools as the events of a stream.

OpenAI Responses, streaming events: an item is announced when the tool begins and completed when it
has ended, with progress events between them. Items of tools that run at the same time are open
together, each with its `output_index`. No type is invented: OpenAI's helper for JavaScript fails on
an unknown one.
"""

from toolbridge.codecs.openai_responses.encode_output_items import OutputLog
from toolbridge.codecs.openai_responses.hosted_items import (
    HostedItems,
    has_own_item,
    is_complete,
)
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Request
from toolbridge.core.server_tools import ServerCall, ServerPart


class HostedWriter:
    """Writes the events of server tools; a call stays open until its result arrives."""

    def __init__(self, log: OutputLog, request: Request) -> None:
        self._log = log
        self._items = HostedItems(request)
        self._open: dict[str, tuple[int, ServerCall]] = {}
        """By id the calls without a result, with the index of their item."""

    def write(self, part: ServerPart) -> list[bytes]:
        if isinstance(part, ServerCall):
            return self._call(part)
        if part.call_id not in self._open or has_own_item(part):
            item = self._items.alone(part)
            return [self._log.begin(item), *self._steps(item), self._log.finish(item)]
        index, call = self._open.pop(part.call_id)
        return self._finish(index, self._items.call(call, part))

    def close(self) -> list[bytes]:
        """Return the events that complete calls without a result."""
        left, self._open = self._open, {}
        found = (self._finish(index, self._items.call(call, None)) for index, call in left.values())
        return [written for events in found for written in events]

    def abandon(self) -> None:
        """Mark the open items as incomplete in the output of an answer that failed."""
        for index, call in self._open.values():
            self._log.output[index] = self._items.begun(call) | {"status": "incomplete"}

    def _call(self, call: ServerCall) -> list[bytes]:
        if is_complete(call):
            item = self._items.call(call, None)
            return [self._log.begin(item), self._log.finish(item)]
        begun = self._items.begun(call)
        index = len(self._log.output)
        self._open[call.id] = (index, call)
        written = [self._log.begin(_empty(begun))]
        self._log.output.append(begun)
        return [*written, *self._progress(index, begun)]

    def _progress(self, index: int, item: JsonObject) -> list[bytes]:
        match item["type"]:
            case "web_search_call":
                return [self._step(index, item, step) for step in ("in_progress", "searching")]
            case "code_interpreter_call":
                code = item["code"]
                return [
                    self._step(index, item, "in_progress"),
                    self._step(index, item, "delta", "_code", {"delta": code}),
                    self._step(index, item, "done", "_code", {"code": code}),
                    self._step(index, item, "interpreting"),
                ]
            case _:
                arguments = item["arguments"]
                return [
                    self._step(index, item, "in_progress"),
                    self._step(index, item, "delta", "_arguments", {"delta": arguments}),
                    self._step(index, item, "done", "_arguments", {"arguments": arguments}),
                ]

    def _finish(self, index: int, item: JsonObject) -> list[bytes]:
        self._log.output[index] = item
        done: JsonObject = {"output_index": index, "item": item}
        return [
            *self._ending(index, item),
            self._log.event("response.output_item.done", done),
        ]

    def _steps(self, item: JsonObject) -> list[bytes]:
        """Return the progress of an item that is written at once."""
        if item["type"] != "mcp_list_tools":
            return []
        index = len(self._log.output)
        ending = "failed" if "error" in item else "completed"
        return [self._step(index, item, step) for step in ("in_progress", ending)]

    def _ending(self, index: int, item: JsonObject) -> list[bytes]:
        status = item.get("status")
        # OpenAI Responses, streaming events: only MCP has an event for a failure.
        if status == "completed" or (status == "failed" and item["type"] == "mcp_call"):
            return [self._step(index, item, str(status))]
        return []

    def _step(
        self,
        index: int,
        item: JsonObject,
        step: str,
        inside: str = "",
        fields: JsonObject | None = None,
    ) -> bytes:
        named: JsonObject = {"item_id": item["id"], "output_index": index}
        return self._log.event(f"response.{item['type']}{inside}.{step}", named | (fields or {}))


def _empty(item: JsonObject) -> JsonObject:
    """Return an item before its code or arguments, which follow in deltas."""
    return item | {name: "" for name in ("code", "arguments") if name in item}
