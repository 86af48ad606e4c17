"""HTML as markdown by trafilatura (extra `reader`), which finds the article of any layout."""

import logging

_FAULTS = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions that pages of strangers have caused in trafilatura, lxml and the packages they use."""
_log = logging.getLogger("toolbridge.tools")


def read_with_trafilatura(page: str, url: str) -> str:
    """Return the text of the article; empty if trafilatura finds none, or cannot be used."""
    try:
        import trafilatura
    except ImportError as error:  # also if a package that it needs is missing
        _log.warning("toolbridge: web fetch: trafilatura cannot be used: %s", error)
        return ""
    # It logs every page that it cannot read, at the level of errors.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    try:
        found: str | None = trafilatura.extract(
            page, url=url, output_format="markdown", include_links=True, include_tables=True
        )
    except _FAULTS:
        return ""
    return found or ""
