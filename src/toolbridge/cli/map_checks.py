"""What `doctor` and the banner report about `[map]`: names that are probably misspelled.

Every name may be in the map, so that a misspelled `default` or tier is no error; without a report it
would have no effect.
"""

import re

from toolbridge.config import Config
from toolbridge.core.close_names import close_names
from toolbridge.policy.models import TIERS

_CUTOFF = 0.85


def misspelled_names(config: Config) -> list[tuple[str, str]]:
    """Return what is wrong with each name that is almost `default` or a tier, and what to do."""
    missing = [name for name in ("default", *TIERS) if name not in config.map]
    return [
        (
            f"map.{name}: only requests for a model with this name use the entry",
            f"did you mean `{near[0]}`?",
        )
        for name in config.map
        # Names with other characters are those of models: `opus4`, `sonnet-4-5`.
        if re.fullmatch(r"[A-Za-z]+", name) and name not in TIERS and name != "default"
        if (near := close_names(name.lower(), missing, cutoff=_CUTOFF))
    ]
