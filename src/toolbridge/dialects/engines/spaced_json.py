"""JSON as chat templates write it."""

import json

from toolbridge.core.json import Json


def spaced(value: Json) -> str:
    """Return JSON with a space after commas and colons, as chat templates write it."""
    return json.dumps(value, ensure_ascii=False)


def sorted_keys(value: Json) -> str:
    """Return JSON without blanks and with sorted keys (macro `json_sorted` of Kimi K3)."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
