"""Qwen3-Coder: `<function=NAME>` and `<parameter=KEY>` in `<tool_call>`.

The template of Qwen/Qwen3.5-4B writes it; so do Qwen3-Coder, Nemotron 3 (`nemotron_v3`), Step 3.5
(`step3p5`), MiMo V2 and Holo. One line end before and after a value belongs to the markup. Models
leave `<tool_call>` out in about one of five calls (ollama#17742), so `<function=` alone also opens.
"""

from dataclasses import replace

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, FUNCTION, TOOL_CALL
from toolbridge.dialects.engines.tool_list import IN_TOOLS

_QWEN3_XML = Dialect(
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
    tools=IN_TOOLS,
)
_NEMOTRON_V3 = replace(_QWEN3_XML, name="nemotron_v3")
_STEP3P5 = replace(_QWEN3_XML, name="step3p5")
DIALECTS = (_QWEN3_XML, _NEMOTRON_V3, _STEP3P5)
