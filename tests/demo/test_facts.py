from tests.tables import every_row

from toolbridge.demo.facts import PromptFacts


@every_row(
    ("words", "groups"),
    [
        ("What is the weather in Paris?", [["Paris"]]),
        ("Paris and Berlin", [["Paris", "Berlin"]]),
        ("Rome, Oslo and Bonn please", [["Rome", "Oslo", "Bonn"]]),
        ("in Paris, France today", [["Paris, France"]]),
        ("from Rome to Oslo", [["Rome"], ["Oslo"]]),
        ("How's the weather in New York?", [["New York"]]),
        ("Zürich's weather", [["Zürich"]]),
        ("nothing here", []),
    ],
)
def test_names_that_are_listed_stand_together(words, groups):
    assert PromptFacts(words).groups == groups


def test_a_name_is_found_after_its_word():
    facts = PromptFacts("fly from Rome to New York")
    assert (facts.name_after("from"), facts.name_after("to")) == ("Rome", "New York")
    assert facts.name_after("via") == ""


def test_other_facts_are_found():
    facts = PromptFacts(
        'mail "a b" to x@y.org on 2026-01-02, see https://e.org/a. and c.txt for 3 or 4.5'
    )
    assert facts.quoted == ["a b"]
    assert facts.email == "x@y.org"
    assert facts.date == "2026-01-02"
    assert facts.url == "https://e.org/a"
    assert facts.numbers[-2:] == [3.0, 4.5]


def test_a_plain_text_has_no_facts():
    facts = PromptFacts("hm")
    assert (facts.url, facts.email, facts.date, facts.path, facts.about) == ("",) * 5
    assert (facts.names, facts.quoted, facts.numbers) == ([], [], [])


def test_what_it_is_about_follows_the_preposition():
    assert PromptFacts("weather in new york today?").about == "new york"
