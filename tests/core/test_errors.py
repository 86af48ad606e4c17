import re

from tests.tables import every_row

from toolbridge.core import errors
from toolbridge.core.errors import KINDS, ToolbridgeError, error_of, name_provider, status_of
from toolbridge.core.messages import Problem

DRAWN = re.findall(r"── (\w+) +(\w+) +(\d{3}|its own status)$", errors.__doc__, re.MULTILINE)


def test_the_drawing_names_every_class():
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, ToolbridgeError)
    }
    assert classes == {"ToolbridgeError", *re.findall(r"── (\w+)", errors.__doc__)}


@every_row(("name", "kind", "status"), DRAWN)
def test_the_drawing_is_true(name, kind, status):
    shape = getattr(errors, name)
    assert KINDS[kind] is shape
    problem = shape("text").problem
    assert problem == Problem(kind, "text")
    assert status_of(problem) == (502 if status == "its own status" else int(status))


def test_the_drawing_holds_every_kind():
    assert {kind for _, kind, _ in DRAWN} == set(KINDS) - {"internal"}


@every_row("kind", [*sorted(KINDS), "a_kind_of_tomorrow"])
def test_a_problem_can_be_raised_and_caught_again(kind):
    problem = Problem(kind, "text", "messages.0", 418, 2.5, "somewhere")
    error = error_of(problem)
    assert isinstance(error, KINDS.get(kind, ToolbridgeError))
    assert error.problem == problem
    assert str(error) == "messages.0: text"


def test_an_error_carries_all_that_it_was_told():
    error = errors.RateLimited("slow down", status=429, retry_after=3.0, provider="groq")
    assert error.problem == Problem("rate_limited", "slow down", "", 429, 3.0, "groq")
    assert str(error) == "slow down"


@every_row(
    ("problem", "status"),
    [
        (Problem("rejected", "", status=402), 402),
        (Problem("rejected", "", status=200), 502),
        (Problem("rejected", ""), 502),
        (Problem("overloaded", "", status=503), 529),
        (Problem("truncated", "", status=200), 502),
        (Problem("a_kind_of_tomorrow", ""), 500),
    ],
)
def test_only_a_rejection_keeps_the_upstreams_status(problem, status):
    assert status_of(problem) == status


def test_a_problem_has_the_name_of_its_provider_once():
    named = name_provider(Problem("overloaded", "try again"), "groq")
    assert (named.provider, named.text) == ("groq", "groq: try again")
    assert name_provider(named, "openai") is named  # the one that it came from
    told = name_provider(Problem("overloaded", "groq is busy"), "groq")
    assert (told.provider, told.text) == ("groq", "groq is busy")
