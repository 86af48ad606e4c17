"""Step 3.5: as Qwen3-Coder."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.shared import BARE_JSON, FUNCTION, TOOL_CALL
from toolbridge.dialects.engines.writing import Writing

DIALECT = Dialect(
    name="step3p5",
    marks=("<tool_call>", "<function="),
    reader=Prose({"<tool_call>": TOOL_CALL, "<function=": FUNCTION, "{": BARE_JSON}, first=("{",)),
    render=Writing(
        call="<tool_call>\n<function=$name>\n$parameters</function>\n</tool_call>",
        parameter="<parameter=$key>\n$value\n</parameter>\n",
        result="<tool_response>\n$result\n</tool_response>",
    ),
)
