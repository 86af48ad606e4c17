"""A gateway that may open few files refuses connections rather than running out of files."""

import asyncio
import subprocess
import sys

import pytest
from tests.raw_http import answers, connect, exchange

pytestmark = pytest.mark.operation
HEALTH = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


async def test_more_connections_than_files_leave_the_server_well(env, tmp_path):
    process = subprocess.Popen(  # noqa: ASYNC220  a moment, in a test
        ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", sys.executable, "-m", "toolbridge", "serve",
         "--port=0"],
        env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        line = await asyncio.to_thread(process.stdout.readline)
        url = line.split()[-1]
        lines = [await connect(url) for _ in range(300)]
        await asyncio.sleep(0.2)
        for _, writer in lines:
            writer.close()
        async with asyncio.timeout(60):
            while [found.status for found in answers(await exchange(url, HEALTH))] != [200]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert "Too many open files" not in errors
