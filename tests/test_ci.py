"""What CI, the hooks before a commit and the pages for contributors run is what the Makefile has."""

import re
import subprocess
from itertools import chain
from pathlib import Path

from tests.tables import every_row
from tests.wheel.pythons import supported

ROOT = Path(__file__).parents[1]


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


MAKEFILE = read("Makefile")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
WORKFLOW = read(".github/workflows/ci.yml")
CI = re.findall(r"^make .*$", read(".ci/run"), re.MULTILINE)
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "clients/typescript/README.md",
        ROOT / ".github/workflows/ci.yml",
        ROOT / ".pre-commit-config.yaml",
        ROOT / ".ci/run",
    ]
)


def named_targets(text: str) -> set[str]:
    """Return the targets of the `make` commands of a page: in code, or at the start of a line."""
    code = [*re.findall(r"`([^`\n]+)`", text), *text.split("\n")]
    commands = (re.match(r"\s*(?:-? ?run: |\$ )?make((?: [a-z-]+)+)", line) for line in code)
    return set(chain.from_iterable(found[1].split() for found in commands if found))


@every_row("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_that_a_page_names_exists(page):
    assert named_targets(page.read_text("utf-8")) <= TARGETS


def test_targets_are_found_in_all_forms():
    text = "`make run`\n$ make test-typescript test-browser   # both\n      - run: make check\n"
    assert named_targets(text) == {"run", "test-typescript", "test-browser", "check"}


def test_make_without_a_target_lists_every_target():
    # Below `make test` this would be a sub-make, which prints its directory too.
    make = ["make", "--no-print-directory"]
    said = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[0] for line in said.strip().split("\n")} == TARGETS


def test_the_workflow_runs_the_commands_of_ci():
    assert sorted(re.findall(r"run: (.+)", WORKFLOW)) == sorted(CI)


def test_the_workflow_tests_every_supported_python_on_linux_and_macos():
    jobs = re.findall(
        r"^  (\w+):\n((?:    .*\n|\n)+)", WORKFLOW.partition("jobs:\n")[2], re.MULTILINE
    )
    tests = dict(jobs)["test"]
    assert "os: [ubuntu-latest, macos-latest]" in tests
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: \[.*\]", tests)[0]) == supported()
    assert sorted(re.findall(r"^ +(3\.\d+)$", dict(jobs)["wheel"], re.MULTILINE)) == supported()


def test_a_job_that_does_not_run_on_macos_says_why():
    for job in WORKFLOW.partition("jobs:\n")[2].split("\n\n"):
        assert ("macos-latest" in job) != ("# Not on macOS: " in job), job


def test_the_hooks_before_a_commit_are_the_tools_of_make_check():
    hooks = re.findall(r"entry: \.venv/bin/(\S+)", read(".pre-commit-config.yaml"))
    recipe = re.search(r"^check: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1]
    assert hooks == re.findall(r"\$\(BIN\)/(\S+)", recipe)
    assert re.findall(r"repo: (\S+)", read(".pre-commit-config.yaml")) == ["local"]


def test_the_changelog_has_the_form_of_keep_a_changelog():
    headings = re.findall(r"^(#+) (.+)$", read("CHANGELOG.md"), re.MULTILINE)
    assert headings[:2] == [("#", "Changelog"), ("##", "[Unreleased]")]
    kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    order: list[str] = []
    for level, text in headings[1:]:
        if level == "##":
            assert re.fullmatch(r"\[Unreleased\]|\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", text)
            order = list(kinds)
        else:
            assert (level, text in order) == ("###", True), text
            order = order[order.index(text) + 1 :]


def test_every_line_of_the_threat_model_names_a_test_that_exists():
    rows = re.findall(r"^\| (?!defence|---)(.+) \| (.+) \|$", read("SECURITY.md"), re.MULTILINE)
    defined = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        defined |= set(re.findall(r"def (test_\w+)\(", file.read_text("utf-8")))
    assert len(rows) > 20
    for defence, tests in rows:
        named = re.findall(r"`(test_\w+)`", tests)
        assert named, defence
        assert set(named) <= defined, set(named) - defined
