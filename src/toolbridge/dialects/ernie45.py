"""ERNIE 4.5: JSON in `<tool_call>`, text in `<response>`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.shared import TOOL_CALL
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="ernie45",
    marks=("<tool_call>",),
    reader=Prose({"<tool_call>": TOOL_CALL}, drop=("<response>", "</response>")),
    render=Writing(call=f"<tool_call>\n{NAME_ARGUMENTS}\n</tool_call>"),
)
