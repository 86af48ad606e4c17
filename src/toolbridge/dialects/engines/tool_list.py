"""Lists of tools for the system prompt, in the form of a model's chat template."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.dialects.engines.spaced_json import spaced


@dataclass(frozen=True)
class ToolList:
    """How the tools are listed; without a known template, one per line."""

    open: str = ""
    close: str = ""
    before: str = ""
    """Text before each tool."""
    after: str = ""
    between: str = "\n"
    typed: bool = False
    """Whether a tool is written as `{"type": "function", "function": …}`."""
    spell: Callable[[Json], str] = dumps

    def written(self, tools: Sequence[JsonObject]) -> str:
        return self.open + self.between.join(map(self._tool, tools)) + self.close

    def _tool(self, tool: JsonObject) -> str:
        described: JsonObject = {"type": "function", "function": tool} if self.typed else tool
        return self.before + self.spell(described) + self.after


LINES = ToolList()
IN_TOOLS = ToolList("<tools>\n", "\n</tools>", typed=True, spell=spaced)
"""The templates of Qwen3, Qwen3.5, GLM-4.6 and MiniCPM5."""
