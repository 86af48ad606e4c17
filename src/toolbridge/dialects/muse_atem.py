"""Muse Glimmer: messages with recipients, calls as invocations."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.frames import Recipients
from toolbridge.dialects.engines.invoke_xml import invoke_xml
from toolbridge.dialects.engines.writing import Writing

_CALLS = invoke_xml("atem:function_calls", prefix="atem:")
DIALECT = Dialect(
    name="muse_atem",
    marks=("<atem:function_calls>",),
    reader=Recipients(_CALLS, "<atem:function_calls>"),
    render=Writing(
        call='<|start|>assistant to=$name<|message|><atem:function_calls>\n<atem:invoke name="$name">\n$parameters</atem:invoke>\n</atem:function_calls><|eom|>',
        parameter='<atem:parameter name="$key">$value</atem:parameter>\n',
        between="",
        result='<tool_output name="$name">\n$result\n</tool_output>',
    ),
)
