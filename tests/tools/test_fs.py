"""Files below the allowed folders, and nothing else."""

import os
import threading
from pathlib import Path

import pytest

from toolbridge.core.errors import ConfigError
from toolbridge.tools import fs
from toolbridge.tools.context import ToolContext
from toolbridge.tools.fs import MOST, fs_read
from toolbridge.tools.registry import Registry

pytestmark = pytest.mark.req("TF-40")
DESCRIPTORS = Path("/proc/self/fd")


@pytest.fixture
def house(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "deep", outside, tmp_path / "root2"):
        folder.mkdir(parents=True)
    (root / "a.txt").write_text("hello")
    (root / "deep" / "b.txt").write_text("déjà vu")
    (root / ".hidden").write_text("seen")
    (tmp_path / "root2" / "c.txt").write_text("second")
    (outside / "secret").write_text("secret")
    (root / "link").symlink_to(outside / "secret")
    (root / "inner").symlink_to(root / "a.txt")
    (root / "way").symlink_to(outside)
    (root / "loop").symlink_to(root / "loop")
    os.mkfifo(root / "pipe")
    return root


def descriptors():
    return len(list(DESCRIPTORS.iterdir()))


async def read(root, *more, **asked):
    registry = Registry([fs_read([root, *more])])
    return await registry.call("fs.read", asked, ToolContext(), timeout=20)


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.txt", "hello"), ("./deep//b.txt", "déjà vu"), ("deep/./b.txt", "déjà vu"), (".hidden", "seen"),
     ("c.txt", "second")],
)  # fmt: skip
async def test_a_file_below_a_root_is_read(house, path, text):
    outcome = await read(house, house.parent / "root2", path=path)
    assert outcome.result == {"path": path, "text": text, "size": len(text.encode())}


async def test_an_absolute_path_is_read_when_it_is_below_a_root(house):
    assert (await read(house, path=f"{house}/a.txt")).result["text"] == "hello"
    assert (await read(house, path=f"{house}2/c.txt")).result["error"]["reason"] == "not_allowed"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../outside/secret", "not_allowed"),
        ("deep/../../outside/secret", "not_allowed"),
        ("deep/../a.txt", "not_allowed"),
        ("..", "not_allowed"),
        (".", "not_allowed"),
        ("/", "not_allowed"),
        ("/etc/passwd", "not_allowed"),
        ("a.txt\0/../../outside/secret", "not_allowed"),
        ("link", "not_allowed"),
        ("inner", "not_allowed"),
        ("way/secret", "not_allowed"),
        ("loop", "not_allowed"),
        ("~/secret", "not_found"),
        ("none", "not_found"),
        ("a.txt/x", "unreadable"),
        ("deep", "not_a_file"),
        ("pipe", "not_a_file"),
        ("x" * 300, "unreadable"),
    ],
)
async def test_nothing_leads_outside(house, path, reason):
    outcome = await read(house, path=path)
    assert outcome.result["error"]["reason"] == reason
    assert "secret" not in outcome.message.replace(repr(path), "")


async def test_a_device_is_refused():
    assert (await read("/dev", path="null")).result["error"]["reason"] == "not_a_file"


async def test_a_root_may_be_a_link(house, tmp_path):
    (tmp_path / "door").symlink_to(house)
    assert (await read(tmp_path / "door", path="a.txt")).result["text"] == "hello"


async def test_a_long_file_is_read_in_parts_that_join(house):
    text = "aé漢😀" * 5000
    (house / "long").write_text(text)
    found, offset = "", 0
    for _ in range(1000):
        result = (await read(house, path="long", offset=offset, limit=777)).result
        found += result["text"]
        if "next_offset" not in result:
            break
        offset = result["next_offset"]
    assert found == text


@pytest.mark.parametrize(
    ("data", "asked", "text"),
    [
        (b"\xff\xfea", {}, "\ufffd\ufffda"),
        ("😀😀".encode(), {"limit": 1}, "\ufffd"),
        (b"abc", {"offset": 99}, ""),
        (b"", {}, ""),
        (b"abc", {"offset": 1, "limit": 1}, "b"),
        (b"ab\xe2\x82", {}, "ab\ufffd"),
    ],
)
async def test_bytes_that_are_no_text_are_replaced(house, data, asked, text):
    (house / "raw").write_bytes(data)
    assert (await read(house, path="raw", **asked)).result["text"] == text


async def test_a_huge_file_costs_no_more_than_its_part(house):
    with (house / "huge").open("wb") as file:
        file.truncate(1 << 40)
    outcome = await read(house, path="huge")
    result, n = outcome.result, MOST // 4  # a control character is six in JSON
    assert not outcome.truncated
    assert (len(result["text"]), result["next_offset"], result["size"]) == (n, n, 1 << 40)


@pytest.mark.parametrize("asked", [{"limit": 0}, {"limit": MOST + 1}, {"offset": -1}, {"path": ""}])
async def test_wrong_arguments_are_said(house, asked):
    assert (await read(house, **{"path": "a.txt", **asked})).code == "invalid_arguments"


async def test_a_file_that_turns_into_a_link_is_never_followed(house):
    """A folder is swapped for a link as fast as it can be while its file is read."""
    (house / "swap").mkdir()
    (house / "swap" / "secret").write_text("mine")
    done = threading.Event()

    def swap():
        while not done.is_set():
            (house / "swap").rename(house / "real")
            (house / "swap").symlink_to(house.parent / "outside")
            (house / "swap").unlink()
            (house / "real").rename(house / "swap")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        texts = {
            str((await read(house, path="swap/secret")).result.get("text")) for _ in range(500)
        }
    finally:
        done.set()
        thread.join()
    assert texts <= {"mine", "None"}
    assert "mine" in texts


@pytest.mark.parametrize("at", [0, 1])
async def test_a_link_that_appears_after_the_look_is_not_followed(house, monkeypatch, at):
    """The folder, or the file, becomes a link between the look at it and its opening."""
    (house / "swap").mkdir()
    (house / "swap" / "secret").write_text("mine")
    steps = [house / "swap", house / "swap" / "secret"]
    targets = [house.parent / "outside", house.parent / "outside" / "secret"]
    looks = []
    real = fs._refuse_special if at else fs._refuse_link

    def look(*args):
        real(*args)
        looks.append(1)
        if len(looks) == 1:
            steps[at].rename(house / "moved")
            steps[at].symlink_to(targets[at])

    monkeypatch.setattr(fs, real.__name__, look)
    outcome = await read(house, path="swap/secret")
    assert outcome.result["error"]["reason"] == "unreadable"
    assert steps[at].is_symlink()


def test_a_system_that_cannot_open_step_by_step_has_no_such_tool(monkeypatch):
    monkeypatch.setattr(fs.os, "supports_dir_fd", set())
    with pytest.raises(ConfigError):
        fs_read([])


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="there is no /proc here")
async def test_no_descriptor_is_left_open(house):
    async def read_all():
        for path in ("a.txt", "deep/b.txt", "link", "way/secret", "pipe", "none", "deep"):
            await read(house, path=path)

    await read_all()
    before = descriptors()
    await read_all()
    assert descriptors() == before
