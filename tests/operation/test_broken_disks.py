"""A gateway whose disk, database or standard streams fail serves as any other does."""

import asyncio
import fcntl
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest
from tests.processes import gateway_process

pytestmark = pytest.mark.operation
DEV_FULL = Path("/dev/full").exists()
PROC = Path("/proc/self/fd").exists()
ASK = {
    "model": "claude-sonnet-4-5", "max_tokens": 50,
    "messages": [{"role": "user", "content": "What is 12*7?"}],
}  # fmt: skip


async def answers(url: str, key: str = "k") -> list[tuple[int, bytes]]:
    """Return what a client gets for a good request, a bad one, and a structured stream."""
    found = []
    async with aiohttp.ClientSession() as client:
        for path, body in [
            ("/v1/messages", ASK),
            ("/v1/messages", {}),
            ("/v1/stream", {"prompt": "What is 12*7?"}),
        ]:
            async with client.post(
                f"{url}{path}", json=body, headers={"idempotency-key": f"{key} {len(found)}"}
            ) as response:
                found.append((response.status, await response.read()))
        async with client.get(f"{url}/health") as response:
            found.append((response.status, await response.read()))
    return found


def assert_good(found: list[tuple[int, bytes]]) -> None:
    assert [status for status, _ in found] == [200, 400, 200, 200]
    assert b"84" in found[0][1]
    assert b"84" in found[2][1]
    assert b"event: done" in found[2][1]


@pytest.mark.parametrize(
    "script",
    [
        'exec "$@" 2>&-',
        'exec "$@" <&- 2>&-',
        'exec "$@" 2>/dev/full',
        'exec "$@" 2> >(true)',
    ],
    ids=["closed", "both closed", "full disk", "reader left"],
)
async def test_a_closed_stderr_changes_no_answer(tmp_path, script):
    if "/dev/full" in script and not DEV_FULL:
        pytest.skip("there is no /dev/full here")
    async with gateway_process(tmp_path, script=script) as process:
        assert_good(await answers(process.url))
        assert_good(await answers(process.url, "another"))


async def test_a_log_that_nobody_reads_changes_no_answer(tmp_path):
    fifo = tmp_path / "unread"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR)
    held = 64 * 1024
    if hasattr(fcntl, "F_SETPIPE_SZ"):  # only Linux can make a pipe smaller
        held = fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    try:
        async with gateway_process(tmp_path, script='exec "$@" 2>unread') as process:
            async with asyncio.timeout(60), aiohttp.ClientSession() as client:
                for _ in range(held // 100):  # a line has 200 bytes
                    async with client.get(f"{process.url}/v1/nothing") as response:
                        assert response.status == 404
            assert_good(await answers(process.url))
    finally:
        os.close(reader)


@pytest.mark.skipif(not PROC, reason="there is no /proc here")
async def test_no_socket_or_file_gets_the_number_of_a_closed_stderr(tmp_path):
    """A library that writes to file 2 must not write into the database or to a client."""
    async with gateway_process(tmp_path, script='exec "$@" 2>&-') as process:
        assert_good(await answers(process.url))
        found = await asyncio.to_thread(Path(f"/proc/{process.pid}/fd/2").readlink)
        assert found == Path("/dev/null")


DISKS = {
    "read-only": "mount -t tmpfs -o ro,size=1m none",
    "full": "mount -t tmpfs -o size=16k none",
    "small": "mount -t tmpfs -o size=120k none",
}


@pytest.mark.parametrize("disk", DISKS)
async def test_no_disk_changes_an_answer(tmp_path, disk):
    """In a mount namespace of its own, the state directory is on a disk of that kind."""
    script = f'mkdir -p "$XDG_STATE_HOME" && {DISKS[disk]} "$XDG_STATE_HOME" || exit 3; exec "$@"'
    trial = await asyncio.create_subprocess_exec(
        "unshare", "-rm", "true", stderr=asyncio.subprocess.DEVNULL
    )
    if await trial.wait():
        pytest.skip("no mount namespaces here")
    script = f"exec unshare -rm bash -c '{script}' bash \"$@\""
    async with gateway_process(tmp_path, script=script) as process:
        for n in range(20 if disk == "small" else 4):  # so many fill the small one
            found = await answers(process.url, f"key {n}")
            assert_good(found)
        # The store goes on in memory: a repeat is still a repeat.
        assert (await answers(process.url, f"key {n}"))[2] == found[2]
        health = json.loads(found[3][1])
    if disk != "small" or "memory" in health["store"]:
        assert health["store"].startswith("memory ("), health
        assert b"kept in memory only" in process.log.read_bytes()
    assert process.log.read_bytes().count(b"kept in memory only") <= 3


async def test_a_log_on_a_full_disk_changes_no_answer(tmp_path):
    script = 'ulimit -f 4; exec "$@"'
    async with gateway_process(tmp_path, script=script) as process:
        for _ in range(12):
            assert_good(await answers(process.url))
    assert 3 * 1024 < process.log.stat().st_size <= 4 * 1024


async def test_a_locked_database_changes_no_answer(tmp_path):
    async with gateway_process(tmp_path) as process:
        first = await answers(process.url, "before")
        assert_good(first)
        with closing(
            sqlite3.connect(process.state / "toolbridge.sqlite", isolation_level=None)
        ) as other:
            other.execute("begin exclusive")
            locked = await answers(process.url, "locked")
            assert_good(locked)
            assert b"locked" in locked[3][1]
            assert (await answers(process.url, "locked"))[2] == locked[2]
            assert (await answers(process.url, "before"))[2] == first[2]
            other.execute("rollback")


@pytest.mark.parametrize("damage", [b"", b"no database" * 1000, b"\xa5" * 40_000])
async def test_a_damaged_database_changes_no_answer(tmp_path, damage):
    """At the start, and while the gateway runs."""
    async with gateway_process(tmp_path) as process:
        first = await answers(process.url, "before")
    file = process.state / "toolbridge.sqlite"
    file.write_bytes(file.read_bytes()[: 100 if damage[:1] == b"\xa5" else 0] + damage)
    async with gateway_process(tmp_path) as process:
        assert_good(await answers(process.url, "after"))
        file.write_bytes(damage)
        for n in range(3):
            assert_good(found := await answers(process.url, f"later {n}"))
            assert (await answers(process.url, f"later {n}"))[2] == found[2]
    assert_good(first)
    log = process.log.read_bytes()
    assert b"Traceback" not in log
    if damage:
        assert b"is corrupt" in log


@pytest.mark.skipif(not PROC, reason="there is no /proc")
@pytest.mark.parametrize("kind", ["a file", "proc"])
async def test_a_state_directory_that_cannot_be_used_is_reported_at_the_start(tmp_path, kind):
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file") if kind == "a file" else "/proc"
    async with gateway_process(tmp_path, env={"XDG_STATE_HOME": place}) as process:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{process.url}/health") as got:
                assert (await got.json())["store"].startswith("memory (")
            async with session.post(f"{process.url}/v1/messages", json=ASK) as got:
                assert got.status == 200
    banner = (tmp_path / "stdout.log").read_text()
    assert f"PROBLEM:        the state directory {place}/toolbridge cannot be used (" in banner
    written = process.log.read_text()
    assert "1 rows of the ledger were not written" in written
    assert "for a start" not in written
