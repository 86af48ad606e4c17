"""Kimi K2: an id that contains the tool's name, then JSON.

The template of moonshotai/Kimi-K2-Instruct. The id is `functions.NAME:NUMBER`; models also write
`functionsNAME5` and a bare number (sglang#21377), and some a singular section mark
(ggml-org/llama.cpp#17376).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from toolbridge.core.messages import Call
from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.spaced_json import spaced
from toolbridge.dialects.engines.tag_json import NamedJson
from toolbridge.dialects.engines.tool_list import ToolList

_ID = re.compile(r"(?:functions[.:_]?)?(.+?)(?:[:_]?\d+)?")


@dataclass(frozen=True)
class KimiCalls(NamedJson):
    """Parses the id, which is returned unchanged: Kimi degrades otherwise (llxprt-code#712)."""

    def identify(self, writer: EventWriter, written: str) -> tuple[str, str]:
        whole, _, _ = written.partition(":")
        match = _ID.fullmatch(written)
        for name in (whole.removeprefix("functions."), match.group(1) if match else "", written):
            if name and not name.isdigit() and (found := writer.tools.resolve(name)):
                return found, written
        if len(writer.tools.names) == 1 and written.isdigit():
            return writer.tools.names[0], ""
        raise NotACall(written)


class KimiRenderer(Renderer):
    """Gives calls of other models an id in Kimi's form."""

    def calls(self, calls: Sequence[Call]) -> str:
        return super().calls(
            [
                call
                if call.id.startswith("functions.")
                else replace(call, id=f"functions.{call.name}:{index}")
                for index, call in enumerate(calls)
            ]
        )


_SECTION = ("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>")
_SECTION_END = ("<|tool_calls_section_end|>", "<|tool_call_section_end|>")
_CALLS = KimiCalls(
    separators=("<|tool_call_argument_begin|>",),
    section=_SECTION,
    section_close=_SECTION_END,
    call=("<|tool_call_begin|>",),
    close=("<|tool_call_end|>",),
)
DIALECT = Dialect(
    tools=ToolList("[", "]", between=", ", typed=True, spell=spaced),
    name="kimi_k2",
    marks=("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
    reader=MarkReader(
        dict.fromkeys((*_SECTION, "<|tool_call_begin|>"), (_CALLS,)),
        drop=("<|im_end|>",),
        leftovers=("<|tool_call_argument_begin|>", *_SECTION_END),
    ),
    render=KimiRenderer(
        open="<|tool_calls_section_begin|>",
        call="<|tool_call_begin|>$id<|tool_call_argument_begin|>$arguments<|tool_call_end|>",
        close="<|tool_calls_section_end|>",
        between="",
        result="## Return of $id\n$result",
    ),
)
