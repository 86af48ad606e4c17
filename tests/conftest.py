"""The Hypothesis profile is chosen before any test module is imported; garbage is collected less often.

Gateways of tests run on uvloop, as those of `toolbridge serve` do, which also takes a fifth less time.
The library, and a server without uvloop, run on asyncio's own loop: so do the tests of `tests/sdk`, all
of `make test-thorough`, and, as a second case each, the tests of HTTP, because transports differ.
"""

import asyncio
import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from _pytest.runner import runtestprotocol
from tests.examples import PROFILE, load_profile

load_profile()
gc.disable()  # until all tests are collected: nothing of them is garbage
MARKED_FOLDERS = ("real", "browser", "wheel", "operation", "stores")
"""Folders whose tests all have the mark of this name."""
SERVING_FOLDERS = ("conformance", "routing", "sdk_clients", "server")
"""Folders whose tests start gateways in their own process."""


def pytest_configure(config: pytest.Config) -> None:
    """Let `make test` trust one authority, whose key does not exist: nothing there leaves the machine.

    Every client of a vendor's SDK and every process otherwise parses all of the system's certificates.
    """
    if all(_excludes(config, name) for name in MARKED_FOLDERS):
        os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "authority.pem")


def _excludes(config: pytest.Config, mark: str) -> bool:
    return f"not {mark}" in config.option.markexpr.split(" and ")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the tests of a folder whose mark is excluded, as `make test` does."""
    name = collection_path.name
    is_folder = collection_path.parent == Path(__file__).parent and name in MARKED_FOLDERS
    return True if is_folder and _excludes(config, name) else None


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """In a worker, report of a passed test only that it passed.

    Its captured output and marks, its setup and its teardown are left out: they are shown only on
    request. A test that does not pass is reported as ever, in the same three parts.
    """
    if not item.config.getoption("--forks", 0) or _shows_details(item.config):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.passed:
            report.keywords, report.sections = {}, []
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def _shows_details(config: pytest.Config) -> bool:
    """Tell whether the run has `-vv`, `--durations`, `--junitxml`, or `-rP` or `-rA`."""
    option = config.option
    return bool(
        option.verbose > 0 or option.durations or option.xmlpath or {*"PA"} & {*option.reportchars}
    )


def pytest_collection_finish() -> None:
    """Keep collected tests and imported SDKs out of every later garbage collection."""
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)
    gc.enable()


class ServingLoop(uvloop.Loop):
    """A loop that ends with the servers that a failed test has left: uvloop waits for them for ever."""

    def __init__(self) -> None:
        super().__init__()
        self._servers: list[asyncio.AbstractServer] = []

    async def create_server(self, *args: object, **options: object) -> asyncio.AbstractServer:
        server = await super().create_server(*args, **options)
        self._servers.append(server)
        return server

    def close(self) -> None:
        for server in self._servers:
            server.close()
        super().close()


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    own, uv = {"asyncio": asyncio.new_event_loop}, {"uvloop": ServingLoop}
    if folder in {"server", "upstream"} and item.path.name.startswith("test_http_"):
        return own | uv
    return uv if folder in SERVING_FOLDERS and PROFILE != "thorough" else own
