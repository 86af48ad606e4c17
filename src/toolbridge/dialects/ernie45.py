"""ERNIE 4.5: JSON in `<tool_call>`, text in `<response>`.

Baidu's ERNIE-4.5-21B-A3B-Thinking; the format is that of vLLM's `ernie45` parser.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.shared import TOOL_CALL

DIALECT = Dialect(
    name="ernie45",
    marks=("<tool_call>",),
    reader=MarkReader({"<tool_call>": TOOL_CALL}, drop=("<response>", "</response>")),
    render=Renderer(call=f"<tool_call>\n{NAME_ARGUMENTS}\n</tool_call>"),
)
