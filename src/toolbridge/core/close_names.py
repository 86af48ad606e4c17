"""Names that are spelt almost like a given one, for suggestions in error texts."""

from collections.abc import Iterable


def close_names(word: str, known: Iterable[str], n: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return at most `n` of the known names, the most similar one first."""
    # Imported here, because only a misspelt name needs it, and it takes 4 ms of each start.
    from difflib import get_close_matches

    return get_close_matches(word, list(known), n, cutoff)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error: the known word that is most like `word`, if any is."""
    near = close_names(word, known)
    return f"; did you mean `{near[0]}`?" if near else ""
