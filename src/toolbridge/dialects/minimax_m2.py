"""MiniMax M2: invocations in `<minimax:tool_call>`.

The template of MiniMaxAI/MiniMax-M2. Several invocations may share one wrapper (smg#1824), and the
model leaves the wrapper out, mostly after reasoning.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.invoke_xml import invoke_xml
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.shared import CALLING_TOOL
from toolbridge.dialects.engines.spaced_json import spaced
from toolbridge.dialects.engines.tool_list import ToolList

_CALLS = invoke_xml("minimax:tool_call", drops_empty=True)
DIALECT = Dialect(
    name="minimax_m2",
    marks=("<minimax:tool_call>",),
    reader=MarkReader(
        {"<minimax:tool_call>": (_CALLS,), "<invoke": (_CALLS,), **CALLING_TOOL},
        drop=("[e~[",),
        leftovers=_CALLS.wrapper_close,
    ),
    render=Renderer(
        open="<minimax:tool_call>\n",
        call='<invoke name="$name">\n$parameters</invoke>',
        parameter='<parameter name="$key">$value</parameter>\n',
        close="\n</minimax:tool_call>",
        result="<response>$result</response>",
    ),
    tools=ToolList("<tools>\n", "\n</tools>", "<tool>", "</tool>", spell=spaced),
)
