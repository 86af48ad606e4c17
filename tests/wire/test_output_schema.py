"""What a provider does not enforce of an output schema is one loss, however many keywords it is."""

from tests.tables import every_row

from toolbridge.core.messages import OutputFormat
from toolbridge.wire.output_schema import fit_output
from toolbridge.wire.schema_subsets import ANTHROPIC


@every_row(
    ("count", "named", "more"),
    [(1, 1, ""), (5, 5, ""), (6, 5, " and 1 more"), (9, 5, " and 4 more")],
)
def test_five_keywords_are_named_and_the_others_counted(count, named, more):
    names = [f"k{number}" for number in range(count)]
    properties = {name: {"type": "integer", "minimum": 1} for name in names}
    schema = {
        "type": "object", "properties": properties, "required": names, "additionalProperties": False,
    }  # fmt: skip
    losses = []
    fit_output(OutputFormat(schema=schema), ANTHROPIC, losses)
    (loss,) = losses
    told = f"{loss.what}; {loss.why}"
    assert [name for name in names if f"{name}.minimum" in told] == names[:named]
    assert ("more" in told) is bool(more)
    assert more in told
