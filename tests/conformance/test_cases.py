"""The cases are data: they can be read, name what exists, and cover what they must."""

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.tables import every_row

from toolbridge.conformance import cases, clients, upstreams
from toolbridge.conformance.client_requests import CasePart, CaseRequest, CaseTurn, marked
from toolbridge.conformance.scripted_upstream import pieces
from toolbridge.core.errors import ConfigError

BOOK = cases.load()
ROOT = Path(__file__).parents[2]


def test_there_are_enough_of_them_for_every_api():
    by_api = Counter(case.api for case in BOOK.cases)
    assert set(by_api) == set(cases.APIS)
    assert all(count >= 80 for count in by_api.values())
    assert len(BOOK.cases) >= 120


def test_names_are_unique_within_an_api():
    assert max(Counter(case.id for case in BOOK.cases).values()) == 1


def test_every_case_says_why_in_a_sentence():
    assert all(case.why.endswith(".") and len(case.why) > 15 for case in BOOK.cases)


def test_every_pitfall_of_streams_has_a_case():
    told = {row for case in BOOK.cases for row in case.rows}
    table = (ROOT / "docs/reference/conformance.md").read_text("utf-8")
    described = set(re.findall(r"^\| ([ABC]\d*) \|", table, re.MULTILINE))
    assert {f"A{row}" for row in range(1, 12)} <= told
    assert told == described


def test_every_field_is_described():
    page = (ROOT / "docs/reference/conformance.md").read_text("utf-8")
    described = set(re.findall(r"`(\w+)`", page))
    structs = (cases.Case, cases.Expectation, cases.WireFraming, CaseRequest, CasePart, CaseTurn)
    assert {field for struct in structs for field in struct.__struct_fields__} <= described


def test_every_request_is_used():
    assert {case.ask for case in BOOK.cases} == set(BOOK.asks)


@every_row("api", cases.APIS)
@every_row("name", sorted(BOOK.asks))
def test_every_request_can_be_asked_in_every_api_with_its_mark(api, name):
    ask = marked(BOOK.asks[name], "conform-00000001")
    sent = clients.load(api).ask(ask, "m", True)
    assert "conform-00000001" in repr(sent.body)
    assert sent.path.startswith("/")


@every_row("case", BOOK.cases, ids=lambda case: case.id)
def test_every_answer_can_be_sent(case):
    sent = b"".join(piece.data for piece in pieces(case, ["a_tool"]))
    assert case.gzip or b"@tool" not in sent
    assert upstreams.load(case.api).content_type


def test_a_client_api_gets_only_the_cases_that_it_can_see():
    chosen = BOOK.select(api="gemini", client="ollama")
    assert chosen
    assert all(not case.clients or "ollama" in case.clients for case in chosen)


def test_passthrough_is_held_to_less():
    every = BOOK.select(api="anthropic", client="anthropic")
    passed = BOOK.select(api="anthropic", client="anthropic", passthrough=True)
    assert 0 < len(passed) < len(every)


@every_row("only", ["plain-text", "ollama/plain-text", "text", "slow"])
def test_cases_are_chosen_by_name_family_or_tag(only):
    assert BOOK.select(api="ollama", client="ollama", only=only)
    assert not BOOK.select(api="ollama", client="ollama", only="no-such-thing")


@pytest.mark.parametrize(
    "text",
    ['api = "x"\n[[case]]\nname = "a"\nfamily = "f"\nwhy = "w"\ncolour = "red"\n', "api = ", ""],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, text):
    (tmp_path / "odd.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"odd\.toml"):
        cases.load(tmp_path)


def test_a_request_that_does_not_exist_is_named(tmp_path):
    (tmp_path / "requests.toml").write_text("tool = []\n[ask]\n")
    (tmp_path / "a.toml").write_text(
        'api = "ollama"\n[[case]]\nname = "a"\nfamily = "f"\nwhy = "w"\nask = "lost"\n'
    )
    with pytest.raises(ConfigError, match="lost"):
        cases.load(tmp_path)


def test_repetitions_are_written_out(tmp_path):
    (tmp_path / "requests.toml").write_text(
        'tool = []\n[ask.plain]\nturns = []\nsystem = "{{x*3}}"'
    )
    assert cases.load(tmp_path).asks["plain"].system == "xxx"


def test_a_request_without_words_cannot_be_marked():
    with pytest.raises(ValueError, match="a text of the user"):
        marked(CaseRequest(turns=(CaseTurn("assistant", (CasePart(text="x"),)),)), "conform-1")


@pytest.mark.parametrize("load", [clients.load, upstreams.load])
def test_an_unknown_api_is_refused(load):
    with pytest.raises(ConfigError, match="carrier_pigeon"):
        load("carrier_pigeon")
