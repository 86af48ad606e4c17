"""HTML as markdown by trafilatura (extra `reader`), which finds the article of any layout."""

import logging


def read_with_trafilatura(page: str, url: str) -> str:
    """Return the text of the article; empty if trafilatura finds none."""
    import trafilatura

    # It logs every page that it cannot read, at the level of errors.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    found: str | None = trafilatura.extract(
        page, url=url, output_format="markdown", include_links=True, include_tables=True
    )
    return found or ""
