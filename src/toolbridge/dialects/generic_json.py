"""JSON without any mark: as `bare_json`."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.prose import Prose
from toolbridge.dialects.engines.shared import BARE_JSON
from toolbridge.dialects.engines.writing import NAME_ARGUMENTS, Writing

DIALECT = Dialect(
    name="generic_json",
    marks=('{"name"',),
    reader=Prose({"{": BARE_JSON, "[": BARE_JSON}, bare=("{", "[")),
    render=Writing(call=NAME_ARGUMENTS),
)
