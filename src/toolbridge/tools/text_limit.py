"""Cuts a text to a number of tokens."""

from toolbridge.accounting.count import estimate_text


def fit_tokens(text: str, most: int) -> tuple[str, bool]:
    """Return `text` cut to about `most` tokens, estimated, and whether something was cut."""
    # No token is estimated to have more than eight characters.
    kept = text[: most * 8]
    while (tokens := estimate_text(kept)) > most:
        kept = kept[: min(len(kept) - 1, int(len(kept) * most / tokens))]
    return kept, len(kept) < len(text)
