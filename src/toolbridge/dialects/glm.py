"""Zhipu's GLM: a name and `<arg_key>`/`<arg_value>` pairs in `<tool_call>`.

`glm45` follows the template of zai-org/GLM-4.6 with a line end after each tag, `glm47` that of
GLM-4.7-Flash without line ends (GLM-4.7 and GLM-5). `ling3` (Ling 3) writes the format of GLM-4.7.
Values are raw text; the tool's schema decides their types. The models also write strings in quotes,
which SGLang's `glm4_moe` parser removes.
"""

from dataclasses import replace

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, TOOL_CALL
from toolbridge.dialects.engines.tool_list import IN_TOOLS

_GLM45 = Dialect(
    name="glm45",
    marks=("<tool_call>",),
    reader=MarkReader({"<tool_call>": TOOL_CALL, "{": BARE_JSON}, first=("{",)),
    render=Renderer(
        call="<tool_call>$name\n$parameters</tool_call>",
        parameter="<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n",
        result="<tool_response>\n$result\n</tool_response>",
    ),
    tools=IN_TOOLS,
)
_GLM47 = Dialect(
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
_LING3 = replace(_GLM47, name="ling3")
DIALECTS = (_GLM45, _GLM47, _LING3)
