"""The output schema of a request, fitted for its provider, with the losses.

A client of the provider's own API keeps its schema; codecs call this for all others.
"""

from toolbridge.core.messages import Loss, OutputFormat
from toolbridge.wire.schema_fit import FittedSchema, fit
from toolbridge.wire.schema_subsets import SchemaSubset

OPTIONAL = "the schema is sent, but not enforced: in strict mode every key is required"
_SHOWN = 5


def fit_output(output: OutputFormat, subset: SchemaSubset, losses: list[Loss]) -> FittedSchema:
    """Return the schema for the provider; keywords that it does not enforce become a loss.

    Raise `SchemaMisfit` if the provider cannot accept the schema.
    """
    fitted = fit(output.schema or {}, subset)
    if fitted.lost:
        losses.append(_loss(fitted, subset, output))
    return fitted


def _loss(fitted: FittedSchema, subset: SchemaSubset, output: OutputFormat) -> Loss:
    first, *others = (lost.path for lost in fitted.lost)
    also = ", ".join(others[: _SHOWN - 1])
    also += f" and {len(others) - _SHOWN + 1} more" if len(others) >= _SHOWN else ""
    why = "the provider does not enforce it"
    why += f", nor {also}" if also else ""
    why += "; the model reads it in the description" if subset.described else ""
    # The caller of a checked answer finds out by itself whether the keyword holds.
    return Loss(f"output.schema.{first}", why, minor=output.checked)
