"""Functionary 3.2: each message begins with `>>>` and its recipient.

The template of meetkai/functionary-medium-v3.2 writes it; the recipient `all` is text. The recipient
`python` may get code instead of JSON.
"""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.recipients import Recipes
from toolbridge.dialects.engines.render import Renderer

DIALECT = Dialect(
    name="functionary_v32",
    marks=(">>>",),
    reader=Recipes(),
    render=Renderer(call=">>>$name\n$arguments", between=""),
)
