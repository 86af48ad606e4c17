"""A real browser, or the reason why there is none."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest


def chromium() -> str:
    """Return where Chromium is; skip the test where it is nowhere."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        pytest.skip("there is no Chromium: install Debian's `chromium`, or name one in CHROMIUM")
    return found


class Watched:
    """A page, and all that it complained about."""

    def __init__(self, page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.expected: tuple[str, ...] = ()
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _note(self, message) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def unexpected(self) -> list[str]:
        return [c for c in self.complaints if not any(e in c for e in self.expected)]


@pytest.fixture
async def browse():
    """Return a context that opens a page; a page that complains fails its test when it is left."""
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        pytest.skip("playwright is not installed: run `make test-browser`")
    where = chromium()
    # Chromium's sandbox needs rights that root and most containers do not have.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    # Nothing but the page speaks to the network.
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]

    @asynccontextmanager
    async def opened(url: str, at: str = "", **options) -> AsyncIterator[Watched]:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=where, args=flags)
            context = await browser.new_context(
                **{
                    "viewport": {"width": 1280, "height": 900},
                    "reduced_motion": "reduce",
                    **options,
                }
            )
            page = await context.new_page()
            page.set_default_timeout(60_000)
            watched = Watched(page)
            await page.goto(f"{url}/ui{at}")
            try:
                yield watched
            finally:
                await browser.close()
            assert watched.unexpected() == []
            assert watched.hosts == {url.removeprefix("http://")}

    return opened


@pytest.fixture
def shots(tmp_path) -> Path:
    """Return where pictures go: SHOTS, to look at them, or nowhere that stays."""
    folder = Path(os.environ.get("SHOTS") or tmp_path / "shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
