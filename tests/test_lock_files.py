"""The locked lists: `make run` installs a part of what `make setup` installs."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTS = ("requirements/dev.txt", "requirements/run.txt", "requirements/team.txt")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def locked(name: str) -> dict[str, str]:
    """Return package → version of a list."""
    text = (ROOT / name).read_text("utf-8")
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", text, re.MULTILINE))


def package(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9._-]+", requirement)[0]


@pytest.mark.parametrize("name", LISTS)
def test_every_package_has_a_version_and_hashes(name):
    entries = (ROOT / name).read_text("utf-8").replace("\\\n", " ").strip().split("\n")
    assert len(entries) == len(locked(name))
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry), entry[:60]


@pytest.mark.parametrize("name", LISTS)
def test_no_list_names_an_index(name):
    assert not re.search(r"https?:|file:|--(extra-)?index|find-links", (ROOT / name).read_text())


def test_what_serving_needs_is_a_small_part_of_the_same_versions():
    run, dev = locked(LISTS[1]), locked(LISTS[0])
    assert run.items() <= dev.items()
    assert len(run) < len(dev) / 2
    assert not {"pytest", "mypy", "ruff", "openai", "anthropic", "google-genai"} & run.keys()


def test_what_serving_needs_holds_the_dependencies_and_the_build_backend():
    needed = PROJECT["project"]["dependencies"] + PROJECT["build-system"]["requires"]
    assert {package(requirement) for requirement in needed} <= locked(LISTS[1]).keys()


def test_make_run_installs_only_that():
    assert re.search(r"^run: \$\(RUN_STAMP\) ##", MAKEFILE, re.MULTILINE)
    recipe = re.search(r"^\$\(RUN_STAMP\): .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1]
    assert "--require-hashes -r requirements/run.txt" in recipe
    assert "dev.txt" not in recipe


def test_make_lock_writes_all():
    recipe = re.search(r"^lock: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1]
    assert re.findall(r"-o (\S+)", recipe) == list(LISTS)
