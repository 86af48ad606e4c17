"""Regular expressions that are compiled when they are first used.

Compiling takes Python about 0.2 ms an expression, and most of them are needed only for a broken
answer or a rejected request: compiled at import, they would be a seventh of the start of a gateway.
"""

import re
from typing import TYPE_CHECKING


class _LazyPattern:
    """Stands for a compiled pattern; a method that was used once is an attribute of the object.

    Functions such as `re.sub` do not take it as an argument.
    """

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    lazy_pattern = re.compile
else:
    lazy_pattern = _LazyPattern
