from toolbridge.core.messages import Text, Turn
from toolbridge.core.prefix_memo import LONG, PrefixMemo, ends_of, mark_repeated


def conversation(count, *, repeated=True):
    roles = ("user", "assistant")
    turns = [Turn(roles[number % 2], (Text(str(number)),)) for number in range(count)]
    if repeated:
        mark_repeated(turns, 20)
    return turns


def total(memo, turns, seen, context="c"):
    """Add the numbers of all turns; `seen` gets how many were read in each step."""

    def advance(before, some, _):
        seen.append(len(some))
        return before + sum(int(turn.content[0].text) for turn in some)

    return memo.after(turns, context, 0, advance)


def test_a_pass_continues_before_the_last_turns():
    memo, seen = PrefixMemo(), []
    turns = conversation(20)
    assert total(memo, turns[:15], seen) == sum(range(15))
    assert total(memo, turns, seen) == sum(range(20))
    assert seen == [13, 2, 4, 3]


def test_a_state_is_kept_before_an_answer_that_follows_the_user():
    turns = conversation(20)
    assert ends_of(turns, 0) == (17, 20)
    assert ends_of(turns, 17) == (20,)
    assert ends_of(turns[:19], 0) == (17, 19)
    assert ends_of(turns[: LONG - 1], 0) == (LONG - 1,)
    assert ends_of([Turn("user", ())] * 20, 0) == (20,)


def test_turns_that_are_only_equal_are_read_again():
    memo, seen = PrefixMemo(), []
    first = conversation(12)
    total(memo, first, seen)
    total(memo, [first[0], *conversation(12)[1:]], seen)
    total(memo, conversation(12), seen)
    assert seen == [9, 3] * 3


def test_a_context_has_states_of_its_own():
    memo, seen = PrefixMemo(), []
    turns = conversation(12)
    total(memo, turns, seen)
    total(memo, turns, seen, context="d")
    total(memo, turns, seen)
    assert seen == [9, 3, 9, 3, 3]


def test_nothing_is_kept_of_turns_that_no_decoder_keeps():
    memo, seen = PrefixMemo(), []
    turns = conversation(12, repeated=False)
    total(memo, turns, seen)
    total(memo, turns, seen)
    assert seen == [9, 3, 9, 3]
    assert not memo._kept


def test_a_memo_keeps_no_larger_conversations_than_it_may():
    memo = PrefixMemo(100)
    sessions = [conversation(22) for _ in range(50)]
    for turns in sessions:
        total(memo, turns, [])
    assert len(memo._kept) == 100 // 20
    seen = []
    total(memo, sessions[-1], seen)
    total(memo, sessions[0], seen)
    assert seen == [3, 19, 3]


def test_the_size_may_be_that_of_the_state():
    memo = PrefixMemo(100, lambda state: state)
    for turns in [conversation(12) for _ in range(10)]:
        total(memo, turns, [])
    assert len(memo._kept) == 100 // sum(range(9))
    total(PrefixMemo(10, lambda state: state), conversation(12), [])
