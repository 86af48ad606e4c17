"""GLM 4.7 and 5: pairs without line ends."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, TOOL_CALL

DIALECT = Dialect(
    name="glm47",
    marks=("<tool_call>",),
    reader=MarkReader({"<tool_call>": TOOL_CALL, "{": BARE_JSON}, first=("{",)),
    render=Renderer(
        call="<tool_call>$name$parameters</tool_call>",
        parameter="<arg_key>$key</arg_key><arg_value>$value</arg_value>",
        between="",
        result="<tool_response>$result</tool_response>",
    ),
)
