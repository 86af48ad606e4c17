"""Values of `anthropic-beta` that a cloud rejects are left out from then on, for that model.

Clients written for Anthropic's own API send betas that the clouds do not have. Bedrock answers
"invalid beta flag" without a name (anthropics/claude-code#49370, router-for-me/CLIProxyAPI#4750), so
that first only the values of its documentation are kept, then none. Others name the values.
"""

import re
from collections.abc import Mapping

from toolbridge.core.messages import Problem

HEADER = "anthropic-beta"
_DOCUMENTED = frozenset(
    {
        "computer-use-2024-10-22", "computer-use-2025-01-24", "token-efficient-tools-2025-02-19",
        "interleaved-thinking-2025-05-14", "output-128k-2025-02-19", "dev-full-thinking-2025-05-14",
        "context-1m-2025-08-07", "context-management-2025-06-27", "effort-2025-11-24",
        "tool-search-tool-2025-10-19", "tool-examples-2025-10-29",
    }
)  # fmt: skip
"""Amazon Bedrock, "Anthropic Claude Messages API": the values of `anthropic_beta`."""
_UNNAMED = "invalid beta flag"
_NAMED = re.compile(r"unexpected value\(s\) (.+?) for the `?anthropic-beta", re.IGNORECASE)
_NONE = 2
_MOST_MODELS = 256


class BetaFilter:
    """The betas that the models of one provider have rejected."""

    def __init__(self) -> None:
        self._levels: dict[str, int] = {}
        """Model → 1 if only documented values are sent, 2 if none is."""
        self._rejected: dict[str, frozenset[str]] = {}

    def apply(self, model: str, headers: Mapping[str, str]) -> dict[str, str]:
        """Return `headers` without the values that the model rejects."""
        level, rejected = self._levels.get(model, 0), self._rejected.get(model, frozenset())
        if HEADER not in headers or not (level or rejected):
            return dict(headers)
        given = [value.strip() for value in headers[HEADER].split(",")]
        kept = [value for value in given if value not in rejected]
        if level:
            kept = [value for value in kept if value in _DOCUMENTED and level < _NONE]
        rest = {name: value for name, value in headers.items() if name != HEADER}
        return rest | {HEADER: ",".join(kept)} if kept else rest

    def learn(self, model: str, problem: Problem) -> str:
        """Return which betas are left out after a rejection; empty if it is about something else."""
        if len(self._levels) + len(self._rejected) > _MOST_MODELS:
            return ""
        if _UNNAMED in problem.text:
            level = self._levels.get(model, 0) + 1
            if level > _NONE:
                return ""
            self._levels[model] = level
            return "all" if level == _NONE else "those that its documentation does not have"
        found = _NAMED.search(problem.text)
        named = frozenset(re.findall(r"[\w.-]+", found[1])) if found else frozenset()
        known = self._rejected.get(model, frozenset())
        if named <= known:
            return ""
        self._rejected[model] = known | named
        return ", ".join(sorted(named))
