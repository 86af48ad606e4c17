"""Broken arguments into arguments: syntax, then schema, then a report."""

from toolbridge.healing.ladder import Healing, heal
from toolbridge.healing.names import heal_name

__all__ = ["Healing", "heal", "heal_name"]
