"""A schema of a structured stream means the same to Zod as to the server's own validator."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.framed.test_builtin import values
from tests.real.clients import HOME, NODE, npm_install

from toolbridge.framed.builtin import STRUCTS
from toolbridge.framed.schemas import Schemas

pytestmark = pytest.mark.real

SCRIPT = Path(__file__).parent / "js" / "zod.mjs"
ZOD = "zod@4.6.7"


def samples(name: str) -> list[object]:
    """Return values that fit a schema, nearly fit it, or are something else."""
    found: list[object] = []

    @settings(max_examples=400, deadline=None, derandomize=True, database=None)
    @given(values(name))
    def collect(value: object) -> None:
        found.append(json.loads(json.dumps(value)))

    collect()
    return found


@pytest.mark.req("TF-45")
def test_zod_and_json_schema_give_the_same_verdict():
    npm_install("node", NODE)
    place = npm_install("zod", ZOD)
    script = shutil.copy(SCRIPT, place / SCRIPT.name)  # beside the package, where it is found
    asked = {name: samples(name) for name in STRUCTS}
    done = subprocess.run(
        [str(HOME / "node" / "node_modules" / ".bin" / "node"), str(script)], cwd=place,
        input=json.dumps(asked), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    verdicts = json.loads(done.stdout)
    for name, given_ in asked.items():
        ours = [not Schemas().check(name, value) for value in given_]
        differ = [v for v, a, b in zip(given_, ours, verdicts[name], strict=True) if a != b]
        assert differ == [], name
        assert set(ours) == {True, False}
