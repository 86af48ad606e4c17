"""Files as text, for clients that offer no tools and read edits out of the answer (aider).

Such a client describes its format in the system prompt and repeats it after the user's words.
"""

import re

from toolbridge.demo.intent import Intent, WriteFile

_RULES = re.compile(
    r"\n\s*(?:To suggest changes to a file you MUST|# \*SEARCH/REPLACE block\* Rules:"
    r"|# File editing rules:|Every \*SEARCH/REPLACE block\* must use this format)"
)


def without_rules(text: str) -> str:
    """Return the user's text before the rules that the client appends to it."""
    rules = _RULES.search(text)
    return text if rules is None else text[: rules.start()].rstrip()


def edit_of(intents: list[Intent], system: str) -> str:
    """Return the files to write in the edit format of `system`; empty if it describes none."""
    writes = [intent for intent in intents if isinstance(intent, WriteFile)]
    if not writes or len(writes) < len(intents):
        return ""
    if "*SEARCH/REPLACE" in system:
        return "\n\n".join(map(_search_replace, writes))
    if "*file listing*" in system:
        return "\n\n".join(map(_listing, writes))
    return ""


def _listing(write: WriteFile) -> str:
    return f"{write.path}\n```\n{_lines(write.content)}```"


def _search_replace(write: WriteFile) -> str:
    # An empty SEARCH half creates the file.
    replaced = f"<<<<<<< SEARCH\n=======\n{_lines(write.content)}>>>>>>> REPLACE"
    return f"{write.path}\n```\n{replaced}\n```"


def _lines(content: str) -> str:
    return content if not content or content.endswith("\n") else f"{content}\n"
