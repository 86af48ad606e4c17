"""What changes from one request to the next though nobody said anything new."""

from msgspec.structs import replace

from toolbridge.core.messages import Text

BILLING = "x-anthropic-billing-header:"


def strip_volatile(system: tuple[Text, ...]) -> tuple[Text, ...]:
    """Return the system prompt without Claude Code's billing line, for every target but Anthropic.

    The line differs between kinds of request, stands first of all, and so spoils the whole cached
    prefix of a model server.
    """
    return tuple(part for part in map(_stripped, system) if part is not None)


def _stripped(part: Text) -> Text | None:
    if not part.text.startswith(BILLING):
        return part
    _, _, rest = part.text.partition("\n")
    return replace(part, text=rest) if rest.strip() else None
