"""`toolbridge probe` on real llama.cpp: a scripted model that solves everything, and a real one."""

import json
import subprocess
import sys

import pytest
from tests.probe_script import probe_script
from tests.real.clients import HOME
from tests.real.llamacpp import SCRIPTS, engine

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def scripted():
    """Return a model file that solves every task of the probe."""
    model, script = HOME / "probe.gguf", HOME / "probe.json"
    HOME.mkdir(exist_ok=True)
    script.write_text(json.dumps(probe_script()))
    command = [sys.executable, str(SCRIPTS / "make_tiny.py"), "--gguf", str(model)]
    subprocess.run([*command, "--script", str(script)], capture_output=True, check=True, timeout=60)
    return model


def probe(tmp_path, url: str, *args: str) -> bytes:
    config = tmp_path / "toolbridge.toml"
    config.write_text(f'[providers.llamacpp]\nurl = "{url}/v1"\n')
    done = subprocess.run(
        [sys.executable, "-m", "toolbridge", "probe", "llamacpp/tiny", "--config", str(config), *args],
        capture_output=True, timeout=240, check=False, cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "s")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_two_cards_of_the_scripted_model_are_identical_and_perfect(scripted, tmp_path):
    with engine("--ctx", "16384", model=scripted) as server:
        first = probe(tmp_path, server.url, "--json", "--no-times")
        second = probe(tmp_path, server.url, "--json", "--no-times")
    assert first == second
    attempts = json.loads(first)["attempts"]
    assert len(attempts) == 72
    assert [a for a in attempts if not a["right"]] == []
