"""MiniCPM 4 and 5: `<function name=…>` and `<param name=…>`, values in CDATA.

The template of openbmb/MiniCPM5-1B writes it (parser `minicpm5` in vLLM and SGLang). It asks for
CDATA around values with `<`, `&` or a line end, so an entity outside of CDATA is XML's.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.cdata import CdataCalls, protected
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.tool_list import IN_TOOLS

_CALLS = CdataCalls()
DIALECT = Dialect(
    name="minicpm5_xml",
    marks=("<function name=",),
    reader=MarkReader(dict.fromkeys(_CALLS.call, (_CALLS,))),
    render=Renderer(
        call='<function name="$name">$parameters</function>',
        parameter='<param name="$key">$value</param>',
        result="<tool_response>\n$result\n</tool_response>",
        spell=protected,
    ),
    tools=IN_TOOLS,
)
