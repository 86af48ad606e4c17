"""PDF as text, by pypdf (extra `reader`) in a child process.

A PDF of a stranger can keep a reader busy without end, and a thread cannot be stopped. The child has
limits of memory and processor time, gets none of the gateway's environment, and is killed in time.
"""

import asyncio
import importlib.util
import os
import sys
from pathlib import Path

from toolbridge.core.json import maybe_object
from toolbridge.tools.child_process import ChildProcess, child_environment
from toolbridge.tools.web.read_page import ReadPage

_PROGRAM = Path(__file__).with_name("pdf_program.py")
_SECONDS = 20.0
_MOST = 8 * 1024 * 1024
"""The most bytes that the child prints."""


class NoPdfReader(Exception):
    """pypdf is not installed."""


class PdfUnreadable(Exception):
    """pypdf found no text."""


async def read_pdf(body: bytes) -> ReadPage:
    """Return title and text of a PDF; raise `NoPdfReader` or `PdfUnreadable`."""
    if importlib.util.find_spec("pypdf") is None:
        raise NoPdfReader
    async with asyncio.timeout(_SECONDS):
        found = maybe_object(await _run(body))
    text = found.get("text") if found else None
    if not isinstance(text, str) or not text.strip() or found is None:
        raise PdfUnreadable("this PDF")
    return ReadPage(str(found.get("title", "")), text)


async def _run(body: bytes) -> bytes:
    command = [sys.executable, "-I", str(_PROGRAM)]
    process = await ChildProcess.start(command, child_environment({}, os.environ), limit=_MOST)
    try:
        process.stdin.write(body)
        process.stdin.close()
        return await process.stdout.readline()
    except (ValueError, ConnectionError):  # a longer line, or a child that ended early
        raise PdfUnreadable("this PDF") from None
    finally:
        await process.end(grace=0.0)
