"""What the commands write is readable by its owner only: log, pid, configuration, their folder."""

import json
import stat
import subprocess
import sys

import pytest

from toolbridge.cli import state

pytestmark = pytest.mark.operation


def toolbridge(env: dict[str, str], *words: str) -> subprocess.CompletedProcess:
    command = ["sh", "-c", 'umask 0; exec "$@"', "sh", sys.executable, "-m", "toolbridge", *words]
    return subprocess.run(
        command, check=False, env=env, cwd=env["HOME"], capture_output=True, text=True, timeout=60
    )


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_gateway_in_the_background_keeps_its_files_to_itself(env, tmp_path):
    folder = tmp_path / "state" / "toolbridge"
    folder.mkdir(parents=True)
    folder.chmod(0o777)  # as an earlier version left it
    (folder / "toolbridge.log").write_text("old\n")
    (folder / "toolbridge.log").chmod(0o666)
    started = toolbridge(env, "serve", "--background", "--port=0")
    try:
        assert started.returncode == 0, started.stderr
        running = json.loads((folder / "toolbridge.pid").read_bytes())
        assert state.healthy(running["url"], 60.0)
        assert mode(folder) == 0o700
        files = {at.name: mode(at) for at in folder.iterdir() if at.is_file()}
        assert {"toolbridge.log", "toolbridge.pid"} <= set(files)
        assert {files["toolbridge.log"], files["toolbridge.pid"]} == {0o600}
    finally:
        toolbridge(env, "stop")


def test_a_configuration_is_its_owners(env, tmp_path):
    written = toolbridge(env, "init", "--path", str(tmp_path / "toolbridge.toml"))
    assert written.returncode == 0, written.stderr
    assert mode(tmp_path / "toolbridge.toml") == 0o600
    (tmp_path / "toolbridge.toml").chmod(0o644)
    toolbridge(env, "init", "--path", str(tmp_path / "toolbridge.toml"), "--force")
    assert mode(tmp_path / "toolbridge.toml") == 0o600


def test_a_gateway_tightens_the_folder_that_an_earlier_version_made(env, tmp_path):
    folder = tmp_path / "state" / "toolbridge"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "toolbridge", "serve", "--port=0"],
        env=env, cwd=tmp_path, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        process.stdout.readline()
        assert mode(folder) == 0o700
    finally:
        process.kill()
        process.communicate()
