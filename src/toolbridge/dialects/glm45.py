"""GLM 4.5 and 4.6: pairs of keys and values in `<tool_call>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, TOOL_CALL

DIALECT = Dialect(
    name="glm45",
    marks=("<tool_call>",),
    reader=MarkReader({"<tool_call>": TOOL_CALL, "{": BARE_JSON}, first=("{",)),
    render=Renderer(
        call="<tool_call>$name\n$parameters</tool_call>",
        parameter="<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n",
        result="<tool_response>\n$result\n</tool_response>",
    ),
)
