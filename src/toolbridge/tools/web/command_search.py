"""A search by a program of the user.

The program reads one JSON object (`query`, `count`, `allow`, `block`, `country`, `language`,
`freshness`) from its standard input and prints JSON with a list of objects that have `url`, `title`
and `snippet`. It gets a small environment, with the variable that the setting `key` names.
"""

import asyncio
import logging
from collections.abc import Mapping

from toolbridge.core.json import dump_bytes, loads
from toolbridge.core.printable import printable
from toolbridge.core.server_tools import SearchHit, ServerToolError
from toolbridge.environment import key_variable
from toolbridge.server_tool_settings import WebSearchSettings
from toolbridge.tools.child_process import ChildProcess, child_environment
from toolbridge.tools.web.hits import hits_in, hits_in_text
from toolbridge.tools.web.search_query import SearchQuery

MOST = 2 * 1024 * 1024
_EXIT = 1.0
"""Seconds from the end of the output to the exit."""
_SHOWN = 300
_log = logging.getLogger("toolbridge.tools")


class CommandSearch:
    def __init__(self, settings: WebSearchSettings, env: Mapping[str, str]) -> None:
        self._settings = settings
        variable = key_variable(settings.key)
        passed = {variable: env[variable]} if variable and variable in env else {}
        self._env = child_environment(passed, env)

    async def find(self, query: SearchQuery) -> list[SearchHit] | ServerToolError:
        command = self._settings.command
        seconds = self._settings.timeout
        try:
            process = await ChildProcess.start(command, self._env)
        except OSError as error:
            return self._failed(f"cannot be started: {error.strerror or error}")
        try:
            async with asyncio.timeout(seconds):
                output, trouble = await _communicate(process, dump_bytes(_question(query)))
        except TimeoutError:
            return self._failed(f"did not end within {seconds:g} s")
        except _TooMuch:
            return self._failed(f"printed more than {MOST} bytes")
        finally:
            await process.end(grace=0.0)
        if process.returncode:
            shown = printable(" ".join(trouble.decode("utf-8", "replace").split()))[-_SHOWN:]
            _log.warning("toolbridge: web search: %r printed: %s", command[0], shown)
            return self._failed(f"ended with status {process.returncode}")
        return _hits(output)

    def _failed(self, what: str) -> ServerToolError:
        text = f"the search command {self._settings.command[0]!r} {what}"
        _log.warning("toolbridge: web search: %s", text)
        return ServerToolError("unavailable", text)


class _TooMuch(Exception):
    pass


async def _communicate(process: ChildProcess, given: bytes) -> tuple[bytes, bytes]:
    process.stdin.write(given + b"\n")
    process.stdin.close()
    output, trouble = await asyncio.gather(_read(process.stdout), _read(process.stderr))
    await process.exited(_EXIT)
    return output, trouble


async def _read(stream: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while piece := await stream.read(65536):
        found += piece
        if len(found) > MOST:
            raise _TooMuch
    return bytes(found)


def _question(query: SearchQuery) -> dict[str, object]:
    return {
        "query": query.text,
        "count": query.count,
        "allow": query.allow,
        "block": query.block,
        "country": query.country,
        "language": query.language,
        "after": query.after,
        "before": query.before,
    }


def _hits(output: bytes) -> list[SearchHit]:
    try:
        return hits_in(loads(output))
    except ValueError:
        return hits_in_text(output.decode("utf-8", "replace"))
