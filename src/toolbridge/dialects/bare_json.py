"""JSON without any mark, anywhere in the text."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.render import NAME_ARGUMENTS, Renderer
from toolbridge.dialects.engines.shared import BARE_JSON

DIALECT = Dialect(
    name="bare_json",
    marks=('{"name"',),
    reader=MarkReader({"{": BARE_JSON, "[": BARE_JSON}, bare=("{", "[")),
    render=Renderer(call=NAME_ARGUMENTS),
)
