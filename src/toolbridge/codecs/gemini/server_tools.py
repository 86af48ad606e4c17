"""How Gemini's API reports that one of its own tools found nothing: an answer without text.

Gemini CLI then says that there are no results, or fetches the page itself.
"""

from toolbridge.core.ids import Ids
from toolbridge.core.messages import Foreign, Tool


def encode_unavailable(_tool: Tool, _subject: str, _ids: Ids) -> tuple[Foreign | str, ...]:
    return ()
