"""Broken arguments into arguments: syntax, then schema, then a report."""

from toolbridge.healing.ladder import Healing, heal
from toolbridge.healing.names import heal_name
from toolbridge.healing.stage import Healer, heal_past_call

__all__ = ["Healer", "Healing", "heal", "heal_name", "heal_past_call"]
