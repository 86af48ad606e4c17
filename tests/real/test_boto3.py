"""The tests of clouds that need boto3, with boto3: AWS's own client signs, reads and is rejected.

boto3 is not a dependency of toolbridge, so it is installed into a directory of its own.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.real.clients import installing

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

LIST = Path(__file__).with_name("boto3.txt")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def boto3() -> Path:
    """Return the directory of boto3; skip where it cannot be installed."""
    with installing("boto3") as home:
        if not (home / "done").exists():
            install = [sys.executable, "-m", "pip", "install", "-q", "--require-hashes", "--target"]
            done = subprocess.run(
                [*install, str(home), "-r", str(LIST)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                pytest.skip(f"boto3 cannot be installed: {done.stderr[-300:]}")
            (home / "done").touch()
    return home


def test_the_cloud_tests_pass_with_boto3(boto3):
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/upstream/clouds"], cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(boto3)},
    )  # fmt: skip
    print(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout
    assert not re.search(r"boto\w* is not installed", done.stdout)
