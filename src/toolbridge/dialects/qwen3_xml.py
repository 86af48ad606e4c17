"""Qwen3-Coder and later: `<function=NAME>` in `<tool_call>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, FUNCTION, TOOL_CALL

DIALECT = Dialect(
    name="qwen3_xml",
    marks=("<tool_call>", "<function="),
    reader=MarkReader(
        {"<tool_call>": TOOL_CALL, "<function=": FUNCTION, "{": BARE_JSON}, first=("{",)
    ),
    render=Renderer(
        call="<tool_call>\n<function=$name>\n$parameters</function>\n</tool_call>",
        parameter="<parameter=$key>\n$value\n</parameter>\n",
        result="<tool_response>\n$result\n</tool_response>",
    ),
)
