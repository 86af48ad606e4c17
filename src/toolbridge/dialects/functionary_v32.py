"""Functionary 3.2: each message begins with its recipient."""

from toolbridge.dialects.dialect import Dialect
from toolbridge.dialects.engines.frames import Recipes
from toolbridge.dialects.engines.writing import Writing

DIALECT = Dialect(
    name="functionary_v32",
    marks=(">>>",),
    reader=Recipes(),
    render=Writing(call=">>>$name\n$arguments", between=""),
)
