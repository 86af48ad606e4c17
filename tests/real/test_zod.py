"""A schema of a structured stream means the same to Zod as to the server's own validator."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.real.clients import HOME, NODE, npm_install
from tests.structured.play import DEMO_SCHEMAS
from tests.structured.test_builtin import STRUCTS, values

pytestmark = pytest.mark.real

SCRIPT = Path(__file__).parent / "js" / "zod.mjs"
ZOD = "zod@4.6.7"


FITTING = {
    "Action": {"mode": "book", "target": {"kind": "time", "at": "19:00"}},
    "AssistantReply": {"answer": "a", "citations": [], "diagnostics": {"error": "e"}},
    "places.search": {"query": "a", "radius_km": 5, "open_at": "19:00", "limit": 5},
    "bookings.create": {"place_id": "a", "time": "19:00", "party_size": 2, "name": "a"},
}
EDGES = [
    *("x" * length for length in (0, 1, 64, 65, 100, 101, 200, 201)),
    *(-1, 0, 1, 2.0, 0.5, 1e-9, 20, 21, 50, 50.1, 10**30, True, None, [], {}, ["a"], [1]),
    *("19:00", "24:00", "7pm", "23:59:59", "2030-05-01T19:00", "search", "eat"),
    *({"kind": "place", "id": "p"}, {"kind": "place", "at": "p"}, {"kind": "x", "id": "p"}),
    *({"error": "e", "last_validator_errors": [{"path": "p"}]}, {"error": 1}),
]


def at_the_edges(name: str) -> list[object]:
    """Return a fitting value with each member in turn left out, or on either side of a limit."""
    fitting = FITTING[name]
    without = [{k: v for k, v in fitting.items() if k != member} for member in fitting]
    return [fitting, *without, *({**fitting, member: edge} for member in fitting for edge in EDGES)]


def samples(name: str) -> list[object]:
    """Return values that fit a schema, nearly fit it, or are something else."""
    found: list[object] = at_the_edges(name)

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
        ours = [not DEMO_SCHEMAS.check(name, value) for value in given_]
        differ = [v for v, a, b in zip(given_, ours, verdicts[name], strict=True) if a != b]
        assert differ == [], name
        assert set(ours) == {True, False}
