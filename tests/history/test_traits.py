"""A pass that the traits of a conversation exclude would have changed nothing."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from toolbridge.core.codec import Rules
from toolbridge.core.messages import (
    Call,
    Document,
    Foreign,
    Image,
    Opaque,
    Origin,
    Reference,
    Request,
    Result,
    Text,
    Thinking,
    Turn,
)
from toolbridge.history import prepare
from toolbridge.history.files import own_files
from toolbridge.history.own_fields import without_own_fields
from toolbridge.history.seals import own_seals
from toolbridge.history.traits import traits_of

MAKER = "anthropic/here/m"
SOURCES = (
    None,
    Origin("anthropic", "messages.0"),
    Origin("anthropic", "messages.1", unknown=("colour",)),
    Origin("anthropic", "messages.2", around=("messages.2.size",)),
)
CACHES = ("", "5m")
TOKENS = ((), (Opaque("anthropic/there/n", "signature", "c2ln"),))
TEXTS = [
    Text(text, cache=cache, opaque=opaque, source=source)
    for text, cache, opaque, source in product(("", "words"), CACHES, TOKENS, SOURCES)
]
FILES = [
    kind(file_id=file, cache=cache, source=source)
    for kind, file, cache, source in product((Image, Document), ("", "file_1"), CACHES, SOURCES)
]
SAID = [Thinking("hm", opaque, source=source) for opaque, source in product(TOKENS, SOURCES)]
SAID += [
    Call("c", "f", {}, opaque=opaque, cache=cache, source=source)
    for opaque, cache, source in product(TOKENS, CACHES, SOURCES)
]
INNER = [TEXTS[0], *TEXTS[-4:], *FILES[-4:], Reference("f")]
RESULTS = [
    Result("c", (inner,), cache=cache, source=source)
    for inner, cache, source in product(INNER, CACHES, SOURCES)
]
OTHERS = [
    Foreign("anthropic", kind, {"file_id": "file_1"}, source)
    for kind, source in product(("message", "scan"), SOURCES)
]
PARTS = [*TEXTS, *FILES, *SAID, *RESULTS, *OTHERS, Reference("f")]
ONE_PART = [
    Turn(role, (part,), source)
    for role, part, source in product(("user", "assistant"), PARTS, SOURCES)
]
turns = st.builds(
    Turn,
    st.sampled_from(["user", "assistant", "system"]),
    st.lists(st.sampled_from(PARTS), max_size=3).map(tuple),
    st.sampled_from(SOURCES),
)
conversations = st.lists(turns, max_size=3).map(tuple)


def asked(turns: tuple[Turn, ...]) -> Request:
    return Request("m", turns, origin="anthropic")


def check_that_excluded_passes_change_nothing(turns: tuple[Turn, ...]) -> None:
    request, traits = asked(turns), traits_of(turns)
    assert traits.kinds == {type(part) for turn in turns for part in turn.content}
    if not traits.files:
        assert own_files(request, "ollama", files=None, provider="p") == (request, [])
    if not traits.sealed:
        assert own_seals(request, MAKER, signed_only=True) == (request, [])
    some = without_own_fields(request, "ollama", traits.own, marks=False)
    assert some == without_own_fields(request, "ollama", turns, marks=False)


def test_excluded_passes_change_no_turn_of_one_part():
    for turn in ONE_PART:
        check_that_excluded_passes_change_nothing((turn,))
        # A later turn without any trait must not hide those of this one.
        check_that_excluded_passes_change_nothing((turn, Turn("user", (Text("words"),))))


@given(conversations)
def test_excluded_passes_change_no_conversation(turns):
    for _ in range(2):  # computed, and found in the turns
        check_that_excluded_passes_change_nothing(turns)


@given(conversations, st.builds(Rules, alternate=st.booleans(), pairs=st.booleans()))
def test_a_type_that_no_part_has_changes_nothing(turns, rules):
    every = {type(part) for part in PARTS}
    assert prepare(asked(turns), rules, kinds=every) == prepare(asked(turns), rules)
