"""Healing: makes the arguments that a model wrote valid for their tool, and reports each change.

The ladder (ladder.py) tries strict JSON, then a tolerant parser (syntax.py), then conversion by the
tool's schema (coercion.py). `Healer` (stage.py) does this in a stream, without waiting for the end of
a call where it can (streaming.py). Every change is a step with a name from steps.py.
"""

from toolbridge.healing.ladder import Healing, heal
from toolbridge.healing.names import heal_name
from toolbridge.healing.stage import Healer, heal_past_call

__all__ = ["Healer", "Healing", "heal", "heal_name", "heal_past_call"]
