"""Ling 3: as GLM 4.7."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.shared import BARE_JSON, TOOL_CALL
from toolbridge.dialects.engines.writing import Writing

DIALECT = Dialect(
    name="ling3",
    marks=("<tool_call>",),
    reader=Prose({"<tool_call>": TOOL_CALL, "{": BARE_JSON}, first=("{",)),
    render=Writing(
        call="<tool_call>$name$parameters</tool_call>",
        parameter="<arg_key>$key</arg_key><arg_value>$value</arg_value>",
        between="",
        result="<tool_response>$result</tool_response>",
    ),
)
