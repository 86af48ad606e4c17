"""`toolbridge ask` with a chain: only a model that answers is named."""

import asyncio

from tests.commands import run_command
from tests.peers import model_server, whole


async def test_a_model_that_did_not_answer_is_not_said_to_have_answered(tmp_path):
    async def fails(_, line):
        await whole(line, {"error": {"message": "no"}}, 500)

    async def answers(_, line):
        await whole(line, {"choices": [{"message": {"role": "assistant", "content": "hello"}}]})

    async with model_server(fails) as bad, model_server(answers) as good:
        tables = "".join(
            f'[providers.{name}]\napi = "openai_chat"\nurl = "{url}"\nretries = 0\n'
            for name, url in (("a", bad.url), ("b", bad.url), ("c", good.url))
        )
        file = tmp_path / "toolbridge.toml"
        env = {"HOME": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:1"}
        ask = (env, "ask", "--config", str(file), "hi")
        for last, status, named in (("b", 1, []), ("c", 0, ["c/m"])):
            file.write_text(f'[map]\ndefault = ["a/m", "{last}/m"]\n{tables}')
            done = await asyncio.to_thread(run_command, *ask)
            told = done.stderr.decode()
            lines = [line for line in told.splitlines() if "answered instead" in line]
            assert done.returncode == status, told
            assert [line.split()[3] for line in lines] == named, told
