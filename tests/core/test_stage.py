from toolbridge.core.stage import Identity, Pipe, StageChain


class Words:
    """Letters in, words out; the last one at the end."""

    def __init__(self):
        self._held = ""

    def feed(self, piece):
        *words, self._held = (self._held + piece).split(" ")
        return words

    def close(self):
        return [self._held]


class Loud:
    def feed(self, piece):
        return [piece.upper()]

    def close(self):
        return ["!"]


def test_a_pipe_is_two_stages_as_one():
    pipe = Pipe(Words(), Loud())
    assert pipe.feed("one tw") == ["ONE"]
    assert pipe.feed("o") == []


def test_the_end_of_the_first_goes_through_the_second_before_it_ends():
    pipe = Pipe(Words(), Loud())
    pipe.feed("one two")
    assert pipe.close() == ["TWO", "!"]


def test_pipes_are_stages():
    pipe = Pipe(Pipe(Words(), Loud()), Identity())
    assert pipe.feed("a b") + pipe.close() == ["A", "B", "!"]


def test_a_passage_changes_nothing():
    passage = Identity()
    assert passage.feed(1) + passage.feed(2) + passage.close() == [1, 2]


def test_a_chain_is_any_number_of_stages_as_one():
    chain = StageChain([Words(), Identity(), Loud()])
    assert chain.feed("one tw") == ["ONE"]
    assert chain.feed_all(["o ", "three"]) == ["TWO"]
    assert chain.close() == ["THREE", "!"]


def test_a_chain_without_stages_changes_nothing():
    chain = StageChain()
    assert chain.feed(1) + chain.feed_all([2, 3]) + chain.close() == [1, 2, 3]
