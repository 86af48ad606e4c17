"""Tools in the shape of any API."""

import pytest
from tests.tables import every_row

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.messages import Tool
from toolbridge.core.tools import as_tools

SCHEMA = {"type": "object"}


@every_row(
    "given",
    [
        Tool("f", "d", SCHEMA),
        {"name": "f", "description": "d", "input_schema": SCHEMA},
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}},
        {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA},
        {"name": "f", "description": "d", "parametersJsonSchema": SCHEMA},
    ],
)
def test_every_shape_is_the_same_tool(given):
    assert as_tools([given]) == (Tool("f", "d", SCHEMA),)


@every_row("given", [{}, {"name": 1}, {"function": 3}, "f"])
def test_what_is_no_tool_is_named_with_its_place(given):
    with pytest.raises(MalformedRequest, match=r"needs a .name.") as caught:
        as_tools([Tool("f"), given])
    assert caught.value.problem.where == "tools.1"
