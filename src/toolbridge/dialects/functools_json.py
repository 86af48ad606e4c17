"""A JSON array after the word `functools`.

`phi4_mini` follows vLLM's tool_chat_template_phi4_mini.jinja (Phi-4-mini, Phi-4-multimodal),
`firefunction_v2` the model card of fireworks-ai/llama-3-firefunction-v2. The array ends where its
JSON ends: a search for the first `]` would cut every array argument.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.tag_json import JsonBody

_PHI4_MINI = Dialect(
    name="phi4_mini",
    marks=("functools[",),
    reader=MarkReader({"functools": (JsonBody(only="["),)}),
    render=Renderer(open="functools[", call=NAME_ARGUMENTS, between=", ", close="]"),
)
_FIREFUNCTION_V2 = Dialect(
    name="firefunction_v2",
    marks=("functools[",),
    reader=MarkReader({"functools": (JsonBody(only="["),)}),
    render=Renderer(open=" functools[", call=NAME_ARGUMENTS, between=", ", close="]"),
)
DIALECTS = (_PHI4_MINI, _FIREFUNCTION_V2)
