"""Invocations in `<function_calls>`: the tool format of Claude up to version 2.

Anthropic's legacy prompt format; many fine-tunes and agents imitate it, with and without the `antml:`
prefix.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.invoke_xml import invoke_xml
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer

_PLAIN = invoke_xml("function_calls")
_PREFIXED = invoke_xml("antml:function_calls", prefix="antml:")
DIALECT = Dialect(
    name="anthropic_xml",
    marks=("<function_calls>", "<invoke name="),
    reader=MarkReader(
        {
            **dict.fromkeys((*_PLAIN.wrapper, *_PLAIN.call), (_PLAIN,)),
            **dict.fromkeys((*_PREFIXED.wrapper, *_PREFIXED.call), (_PREFIXED,)),
        },
    ),
    render=Renderer(
        open="<function_calls>\n",
        call='<invoke name="$name">\n$parameters</invoke>',
        parameter='<parameter name="$key">$value</parameter>\n',
        close="\n</function_calls>",
        results_open="<function_results>\n",
        result="<result>\n<tool_name>$name</tool_name>\n<stdout>$result</stdout>\n</result>",
        results_close="\n</function_results>",
    ),
)
