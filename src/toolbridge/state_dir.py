"""The directory for files that outlive a process.

It is `$XDG_STATE_HOME/toolbridge`, or `~/.local/state/toolbridge` (XDG Base Directory
Specification, `XDG_STATE_HOME`). The store, runs, logs, the list of allowed files, downloaded
weights and the ledger of nodes are in it; every module gets its path from here.
"""

from collections.abc import Mapping
from pathlib import Path


def state_dir(env: Mapping[str, str]) -> Path | None:
    """Return the state directory; None if neither `XDG_STATE_HOME` nor `HOME` is set."""
    if found := env.get("XDG_STATE_HOME"):
        return Path(found) / "toolbridge"
    if home := env.get("HOME"):
        return Path(home) / ".local" / "state" / "toolbridge"
    return None
