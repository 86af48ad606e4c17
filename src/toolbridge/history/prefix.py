"""Removes volatile text from the system prompt.

Model servers reuse the cached prefix of a prompt. A line that changes with every request at the
beginning of the system prompt makes that cache useless.
"""

from msgspec.structs import replace

from toolbridge.core.messages import Text

BILLING = "x-anthropic-billing-header:"


def strip_volatile(system: tuple[Text, ...]) -> tuple[Text, ...]:
    """Return the system prompt without Claude Code's billing line, for every target but Anthropic.

    Claude Code sends an attribution block first, and its text differs between kinds of request.
    Anthropic expects it there.
    """
    if not system or not any(part.text.startswith(BILLING) for part in system):
        return system
    return tuple(part for part in map(_stripped, system) if part is not None)


def _stripped(part: Text) -> Text | None:
    if not part.text.startswith(BILLING):
        return part
    _, _, rest = part.text.partition("\n")
    return replace(part, text=rest) if rest.strip() else None
