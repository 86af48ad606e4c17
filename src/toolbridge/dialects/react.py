"""ReAct: `Action:` and `Action Input:` on lines of their own."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose, Span
from toolbridge.dialects.engines.tag_json import NamedJson
from toolbridge.dialects.engines.writing import Writing

_CALLS = NamedJson(separators=("Action Input:",), close=())
DIALECT = Dialect(
    name="react",
    marks=("\nAction:", "Thought:"),
    reader=Prose(
        {"Action:": (_CALLS,)}, thoughts=(Span("Thought:", "\n"),), drop=("Observation:",)
    ),
    render=Writing(call="Action: $name\nAction Input: $arguments", result="Observation: $result"),
)
