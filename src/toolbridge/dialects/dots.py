"""dots: invocations in `<dots_function_call>`.

rednote's dots models; the format is that of the `dots` parsers in vLLM and SGLang.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.invoke_xml import invoke_xml
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer

_CALLS = invoke_xml("dots_function_call")
DIALECT = Dialect(
    name="dots",
    marks=("<dots_function_call>",),
    reader=MarkReader(
        dict.fromkeys((*_CALLS.wrapper, *_CALLS.call), (_CALLS,)), leftovers=_CALLS.wrapper_close
    ),
    render=Renderer(
        open="<dots_function_call>\n",
        call='<invoke name="$name">\n$parameters</invoke>',
        parameter='<parameter name="$key">$value</parameter>\n',
        close="\n</dots_function_call>",
    ),
)
