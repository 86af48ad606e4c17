"""JSON without any mark, anywhere in the text.

Models whose marks were stripped by the server or forgotten write calls like this; `generic_json` is
llama.cpp's generic tool format for models without a tool template. A declared tool name is
required, because ordinary JSON has the same form (kronk#950, Rapid-MLX#703).
"""

from dataclasses import replace

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.shared import BARE_JSON

_BARE_JSON = Dialect(
    name="bare_json",
    marks=('{"name"',),
    reader=MarkReader({"{": BARE_JSON, "[": BARE_JSON}, bare=("{", "[")),
    render=Renderer(call=NAME_ARGUMENTS),
)
_GENERIC_JSON = replace(_BARE_JSON, name="generic_json")
DIALECTS = (_BARE_JSON, _GENERIC_JSON)
