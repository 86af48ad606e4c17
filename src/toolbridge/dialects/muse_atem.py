"""Meta Muse Glimmer: messages with recipients, calls as `<atem:invoke>`.

The template muse-glimmer.jinja (parsers `muse_glimmer` in vLLM, `muse` in SGLang, `glimmer` in
Ollama). Only a complete header ends a message without its end mark; any other `<|start|>` is text.
"""

import re
from dataclasses import dataclass

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.invoke_xml import InvokeCalls
from toolbridge.dialects.engines.parameters import Header
from toolbridge.dialects.engines.recipients import Recipients
from toolbridge.dialects.engines.render import Renderer
from toolbridge.wire.tags import Wait

_NAME = re.compile(r"[^\s\"'<>]*")


@dataclass(frozen=True)
class AtemCalls(InvokeCalls):
    """Parses invocations; the model sometimes writes `<|message|>` inside the tag (Ollama's tests)."""

    def call_header(self, writer: EventWriter) -> Wait[Header]:
        cursor = writer.cursor
        yield from cursor.skip()
        if not (yield from cursor.accept("name=")):
            raise NotACall("tag without a name")
        yield from cursor.accept('"', "'")
        name = yield from cursor.match(_NAME)
        cursor.take(len(name))
        while (yield from cursor.accept("<|message|>", '"', "'")):
            pass
        yield from cursor.accept(">")
        return Header(name)


_CALLS = AtemCalls(
    call=("<atem:invoke",),
    call_close=("</atem:invoke>",),
    parameter=("<atem:parameter",),
    parameter_close=("</atem:parameter>",),
    wrapper=("<atem:function_calls>",),
    wrapper_close=("</atem:function_calls>",),
    quotes=True,
)
DIALECT = Dialect(
    name="muse_atem",
    marks=("<atem:function_calls>",),
    reader=Recipients(_CALLS, ("<atem:function_calls>", "<atem:invoke")),
    render=Renderer(
        call='<|start|>assistant to=$name<|message|><atem:function_calls>\n<atem:invoke name="$name">\n$parameters</atem:invoke>\n</atem:function_calls>',
        parameter='<atem:parameter name="$key">$value</atem:parameter>\n',
        between="<|eom|>",
        close="<|eot|>",
        result='<tool_output name="$name">\n$result\n</tool_output>',
    ),
)
