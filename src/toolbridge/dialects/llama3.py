"""Meta's Llama 3: JSON with `parameters`, or Python calls after `<|python_tag|>`.

Both follow vLLM's tool_chat_template_llama3.1_json.jinja (Llama 3.1 to 3.3). `llama3_python_tag` is
for prompts with `Environment: ipython`; Meta's documentation and Llama 3.3 70B disagree about the
notation after the tag (meta-llama/llama-models#266), so JSON and Python are read.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.python_calls import PythonCalls
from toolbridge.dialects.engines.render import NAME_PARAMETERS, Renderer
from toolbridge.dialects.engines.shared import BARE_JSON, NAMED_FUNCTION

_LLAMA3_JSON = Dialect(
    name="llama3_json",
    marks=("<|python_tag|>",),
    reader=MarkReader(
        {
            "{": BARE_JSON,
            "[": BARE_JSON,
            "<|python_tag|>": (PythonCalls(listed=False),),
            "<function=": (NAMED_FUNCTION,),
        },
        bare=("{", "["),
        drop=("<|eom_id|>", "<|eot_id|>"),
    ),
    render=Renderer(call=NAME_PARAMETERS, between="; ", result='{"output": $json}'),
)
_LLAMA3_PYTHON_TAG = Dialect(
    name="llama3_python_tag",
    marks=("<|python_tag|>",),
    reader=MarkReader(
        {"<|python_tag|>": (PythonCalls(listed=False),), "{": BARE_JSON},
        first=("{",),
        drop=("<|eom_id|>", "<|eot_id|>"),
    ),
    render=Renderer(
        open="<|python_tag|>", call=NAME_PARAMETERS, between="; ", result='{"output": $json}'
    ),
)
DIALECTS = (_LLAMA3_JSON, _LLAMA3_PYTHON_TAG)
