"""The program that reads a PDF in a child process: PDF in, one line of JSON out."""

import io
import json
import logging
import sys
from contextlib import suppress

MEMORY = 1024 * 1024 * 1024
SECONDS = 15
PAGES = 300
CHARACTERS = 1_000_000


def main() -> None:
    limit()
    import pypdf

    logging.disable()
    reader = pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read()))
    pages: list[str] = []
    size = 0
    for page in reader.pages[:PAGES]:
        pages.append(page.extract_text() or "")
        size += len(pages[-1])
        if size > CHARACTERS:
            break
    title = (reader.metadata.title if reader.metadata else "") or ""
    sys.stdout.write(json.dumps({"title": title, "text": "\n\n".join(pages)[:CHARACTERS]}) + "\n")


def limit() -> None:
    """Limit memory and processor time, so that the process ends even if its parent is gone."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


if __name__ == "__main__":
    main()
