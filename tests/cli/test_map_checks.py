"""Names in `[map]` that are almost `default` or a tier are reported by `doctor` and by the banner."""

import pytest
from tests.cli.test_first_run import serving
from tests.commands import run_command
from tests.tables import every_row

from toolbridge.cli.map_checks import misspelled_names
from toolbridge.config import Config


@every_row(
    ("names", "hints"),
    [
        (("defualt",), ["did you mean `default`?"]),
        (("Default",), ["did you mean `default`?"]),
        (("sonet", "haikus"), ["did you mean `sonnet`?", "did you mean `haiku`?"]),
        # The name that is meant is there too, so that the other one is another name.
        (("defaults", "default"), []),
        # Names of models.
        (("opus4", "sonnet-4-5", "fast", "default-model", "gpt-5"), []),
        (("default", "opus", "sonnet", "haiku", "fable", "mythos"), []),
    ],
)
def test_only_a_name_that_is_almost_a_special_one_is_reported(names, hints):
    config = Config(map=dict.fromkeys(names, "demo"))
    assert [to_do for _, to_do in misspelled_names(config)] == hints


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('[map]\ndefualt = "demo"\n')
    return file


def test_doctor_reports_it(env, file):
    done = run_command(env, "doctor", "--config", str(file))
    assert done.returncode == 1
    assert b"map.defualt: only requests for a model with this name use the entry" in done.stdout
    assert b"did you mean `default`?" in done.stdout


def test_the_banner_reports_it(env, file):
    with serving(env, "--port", "0", "--config", str(file), cwd=file.parent) as (_, banner):
        pass
    assert "PROBLEM:        map.defualt: " in banner
    assert "did you mean `default`?" in banner
