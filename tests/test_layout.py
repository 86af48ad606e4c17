"""What a newcomer finds in the tree, and what the commands of the tree do."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.conftest import MARKED_FOLDERS
from tests.tables import every_row

from toolbridge.conformance.streams import cases

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
MAKE = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
CI = (ROOT / ".ci" / "run").read_text("utf-8")
SVG = (ROOT / "docs" / "stream-matrix.svg").read_text("utf-8")


@pytest.mark.req("TF-70", "TF-47")
@every_row(
    "place",
    [
        "src/toolbridge/server/stream.py",
        "src/toolbridge/structured/shapes/AssistantReply.json",
        "src/toolbridge/demo/restaurant/shapes/places.search.json",
        "src/toolbridge/structured/prompts/system.txt",
        "src/toolbridge/structured/prompts/repair.txt",
        "src/toolbridge/demo/restaurant/places.py",
        "src/toolbridge/demo/restaurant/bookings.py",
        "src/toolbridge/runs/artifacts.py",
        "src/toolbridge/demo",
        "src/toolbridge/ui/index.html",
        "clients/typescript/src/index.ts",
        "conformance/stream",
        "tests/transcripts",
    ],
)
def test_each_thing_has_its_room(place):
    found = ROOT / place
    files = [file for file in found.rglob("*") if file.is_file()] if found.is_dir() else [found]
    assert files
    assert all(file.stat().st_size for file in files if file.name != "__init__.py")


def test_a_folder_that_make_test_leaves_out_has_only_tests_with_its_mark():
    """Without the mark, a test there would run in no target."""
    for folder in MARKED_FOLDERS:
        files = [*(ROOT / "tests" / folder).glob("test_*.py")]
        assert files, folder
        for file in files if folder != "stores" else []:  # its conftest marks every test
            assert re.search(
                rf"^pytestmark = .*\.{folder}\b", file.read_text("utf-8"), re.MULTILINE
            ), file


@pytest.mark.req("TF-66")
@pytest.mark.parametrize(
    ("target", "commands"),
    [
        ("run", ["toolbridge serve"]),
        ("build", ["hatchling build"]),
        ("test", ["-m pytest"]),
        ("demo", ["toolbridge demo"]),
        ("conformance", ["toolbridge conform --self", "toolbridge conform --self --stream"]),
        (
            "check",
            ["ruff format --check", "ruff check", "lint-imports", "mypy", "tests.example_types"],
        ),
        ("requirements", ["-m tests.requirements"]),
    ],
)
def test_a_target_runs_what_its_name_says(target, commands):
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not on this machine")
    done = subprocess.run(
        [make, "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    assert [command for command in commands if command not in done.stdout] == []


@pytest.mark.req("TF-66")
def test_there_is_a_target_for_each_job_and_ci_runs_the_tests():
    assert {"run", "build", "test", "demo", "conformance", "check", "test-real"} <= MAKE
    for target in ("test", "check", "requirements", "test-real", "test-typescript", "test-browser"):
        assert re.search(rf"^make {target}$", CI, re.MULTILINE), target
        assert target in MAKE
    scripts = json.loads((ROOT / "clients/typescript/package.json").read_text())["scripts"]
    assert {"build", "test", "check"} <= scripts.keys()


@pytest.mark.req("TF-67")
@every_row("word", ["Guarantees", "Limitations", "stream-matrix.svg", "GROQ_API_KEY"])
def test_the_first_page_tells_of_structured_streams(word):
    assert word in README


@pytest.mark.req("TF-67")
@pytest.mark.parametrize(("title", "sentences"), [("Guarantees", 3), ("Limitations", 2)])
def test_what_is_promised_and_what_is_not_is_said_in_sentences(title, sentences):
    found = re.search(
        rf"(?:^#+ |\*\*){title}\b.*?\n(.+?)(?=\n#|\n\*\*|\Z)", README, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    assert len(re.findall(r"[.;:](?:\s|$)", found[1])) >= sentences


@pytest.mark.req("TF-67")
def test_the_matrix_on_the_first_page_has_every_case_of_the_suite():
    shown = re.search(r"(\d+) of (\d+) cases pass", SVG)
    assert shown is not None
    known = len(cases.load())
    assert (int(shown[1]), int(shown[2])) == (known, known)


@pytest.mark.req("TF-68")
def test_the_licence_is_said_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    package = json.loads((ROOT / "clients/typescript/package.json").read_text())
    assert project["license"] == package["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")


def test_no_lock_file_names_a_registry():
    for file in (ROOT / "requirements/dev.txt", ROOT / "clients/typescript/package-lock.json"):
        text = file.read_text("utf-8")
        assert '"resolved"' not in text
        assert "index-url" not in text
