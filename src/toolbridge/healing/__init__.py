"""Healing: makes the arguments that a model wrote valid for their tool, and reports each change.

Invalid tool JSON is the most frequent failure of coding agents with open models (cline#10518,
ollama#12064, langchain#34746). The ladder (ladder.py) tries strict JSON, then a tolerant parser
(syntax.py), then conversion by the tool's schema (coercion.py). `Healer` (stage.py) does this in a
stream and sends on what it cannot change any more (streaming.py). Every change is a step with a name
from steps.py.
"""

from toolbridge.healing.ladder import Healing, heal
from toolbridge.healing.names import heal_name
from toolbridge.healing.stage import Healer, heal_past_call

__all__ = ["Healer", "Healing", "heal", "heal_name", "heal_past_call"]
